"""The tables of flow control. `docs/reference/view-tables.md` tells people of them."""

FLOW_TABLES = """
CREATE TABLE scopes (
    num INTEGER PRIMARY KEY,
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    control TEXT NOT NULL,
    scope TEXT NOT NULL,
    path TEXT,
    value TEXT,
    holding INTEGER NOT NULL,
    lanes INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    firings INTEGER NOT NULL,
    due INTEGER,
    next_at INTEGER,
    empty_at INTEGER,
    tokens INTEGER,
    per_ms INTEGER,
    until INTEGER NOT NULL
);
CREATE UNIQUE INDEX scopes_key ON scopes (app, workflow, control, scope);
CREATE INDEX scopes_until ON scopes (until) WHERE until > 0;
CREATE TABLE holders (
    scope INTEGER NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (scope, run)
) WITHOUT ROWID;
CREATE TABLE lanes (
    num INTEGER PRIMARY KEY,
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    name TEXT NOT NULL,
    scope INTEGER NOT NULL,
    count INTEGER NOT NULL,
    sort INTEGER NOT NULL,
    first_sort INTEGER NOT NULL,
    first_run INTEGER NOT NULL,
    together TEXT
);
CREATE UNIQUE INDEX lanes_name ON lanes (app, workflow, name);
CREATE INDEX lanes_line ON lanes (scope, sort, first_run);
CREATE TABLE queued (
    lane INTEGER NOT NULL,
    sort INTEGER NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (lane, sort, run)
) WITHOUT ROWID;
CREATE TABLE windows (
    first INTEGER NOT NULL,
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    path TEXT,
    value TEXT,
    status TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    due INTEGER NOT NULL,
    count INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    last INTEGER NOT NULL,
    held INTEGER,
    hold INTEGER,
    outcome TEXT,
    run TEXT,
    blocked_by TEXT,
    PRIMARY KEY (first, app, workflow)
) WITHOUT ROWID;
CREATE INDEX windows_open ON windows (app, workflow, kind, scope) WHERE status = 'open';
CREATE INDEX windows_due ON windows (app, workflow, kind, due) WHERE status = 'open';
CREATE INDEX windows_age ON windows (app, workflow, kind, opened_at)
    WHERE status IN ('open', 'held');
CREATE INDEX windows_held ON windows (held, hold) WHERE held IS NOT NULL;
CREATE TABLE starts (
    event INTEGER NOT NULL,
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    outcome TEXT NOT NULL,
    run TEXT,
    blocked_by TEXT,
    first INTEGER,
    PRIMARY KEY (event, app, workflow)
) WITHOUT ROWID;
CREATE TABLE holds (
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    at INTEGER NOT NULL,
    axis TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (app, workflow)
) WITHOUT ROWID;
CREATE TABLE spend_hours (
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    hour INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (app, workflow, hour)
) WITHOUT ROWID;
CREATE TABLE flow_counts (
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    kind TEXT NOT NULL,
    of TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (app, workflow, kind, of)
) WITHOUT ROWID;
CREATE VIEW event_runs AS
    SELECT event, app, workflow, 'run' AS outcome, id AS run, NULL AS blocked_by
    FROM run_rows r WHERE event IS NOT NULL AND kind = 'main' AND link IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM starts s
        WHERE s.event = r.event AND s.app = r.app AND s.workflow = r.workflow
    )
    UNION ALL
    SELECT s.event, s.app, s.workflow,
        CASE WHEN w.outcome IS NULL THEN s.outcome
             WHEN w.kind = 'debounce' AND w.last <> s.event THEN 'replaced'
             ELSE w.outcome END,
        ifnull(w.run, s.run), ifnull(w.blocked_by, s.blocked_by)
    FROM starts s LEFT JOIN windows w
        ON w.first = s.first AND w.app = s.app AND w.workflow = s.workflow
    UNION ALL
    SELECT e.num, json_extract(h.value, '$.app'), json_extract(h.value, '$.workflow'),
        'pending', NULL, NULL
    FROM events e, json_each(e.homes) h
    WHERE NOT EXISTS (
        SELECT 1 FROM run_rows r WHERE r.event = e.num AND r.kind = 'main' AND r.link IS NULL
        AND r.app = json_extract(h.value, '$.app')
        AND r.workflow = json_extract(h.value, '$.workflow')
    ) AND NOT EXISTS (
        SELECT 1 FROM starts s WHERE s.event = e.num
        AND s.app = json_extract(h.value, '$.app')
        AND s.workflow = json_extract(h.value, '$.workflow')
    );
"""

FLOW_NAMES = (
    "scopes",
    "holders",
    "lanes",
    "queued",
    "windows",
    "starts",
    "holds",
    "spend_hours",
    "flow_counts",
)
"""Its tables, as they are dropped when the view is rebuilt."""

PROJECT = "project"
"""The kind of the registry's entry that has the project's ceiling."""

HELD = (
    "(r.kind = 'main' AND ifnull(json_extract(r.detail, '$.exempt'), 0) = 0 AND EXISTS"
    " (SELECT 1 FROM holds h WHERE h.app = r.app AND h.workflow = r.workflow))"
)
"""Of a run `r` that has not ended and does not execute: whether a budget holds it."""
