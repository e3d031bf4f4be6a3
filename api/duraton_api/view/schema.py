"""The view's tables. They are documented for people's own read-only SQL.

`FORM` is the form's version: a file of another form is dropped and rebuilt.
Columns that every query needs stand by themselves; the rest of a row is JSON
in `detail`, since each bound column costs about a third of a microsecond a
row. A small run that began and ended in one batch has its steps and the
offsets of its facts in its own row, others in `step_rows` and `facts`. The SQL
views `runs`, `steps`, `event_runs` and `jobs` unpack all that for people. The tables
of flow control are in `flow.schema`.
"""

from duraton_api.view.flow.schema import FLOW_NAMES, FLOW_TABLES, HELD
from duraton_schemas.records.common import Place
from duraton_streams.logs.base import COMMANDS, EVENTS, JOURNAL, MESSAGES

FORM = 6

PLACE_TOPICS = (EVENTS, JOURNAL, MESSAGES, COMMANDS)
_TOPIC_NUMBERS = {topic: number for number, topic in enumerate(PLACE_TOPICS)}
_OFFSET_BITS = 51
_PARTITION_BITS = 10


def place_num(place: Place) -> int | None:
    """A place on the log as one whole number, or None for other topics."""
    topic = _TOPIC_NUMBERS.get(place.topic)
    if topic is None:
        return None
    return (((topic << _PARTITION_BITS) | place.partition) << _OFFSET_BITS) | place.offset


def num_place(num: int) -> Place:
    """The place that a number stands for."""
    offset = num & ((1 << _OFFSET_BITS) - 1)
    rest = num >> _OFFSET_BITS
    topic = PLACE_TOPICS[rest >> _PARTITION_BITS]
    return Place(topic=topic, partition=rest & ((1 << _PARTITION_BITS) - 1), offset=offset)


def run_num(partition: int, seq: int) -> int:
    """A run's number: the partition and seq of the fact that created it."""
    return (partition << _OFFSET_BITS) | seq


def num_partition(num: int) -> int:
    """The partition in a run's number."""
    return num >> _OFFSET_BITS


def num_seq(num: int) -> int:
    """The seq in a run's number."""
    return num & ((1 << _OFFSET_BITS) - 1)


TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE positions (
    partition INTEGER PRIMARY KEY,
    next INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL
);
CREATE TABLE run_rows (
    num INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    app TEXT NOT NULL,
    workflow TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    event INTEGER,
    link TEXT,
    output TEXT,
    detail TEXT NOT NULL,
    steps TEXT,
    offsets BLOB
);
CREATE INDEX runs_id ON run_rows (id);
CREATE INDEX runs_status ON run_rows (status, created_at);
CREATE INDEX runs_workflow ON run_rows (workflow, status, created_at);
CREATE INDEX runs_app ON run_rows (app, status, created_at);
CREATE INDEX runs_created ON run_rows (created_at);
CREATE INDEX runs_event ON run_rows (event) WHERE event IS NOT NULL;
CREATE INDEX runs_link ON run_rows (link) WHERE link IS NOT NULL;
CREATE TABLE step_rows (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    status TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE facts (
    run INTEGER NOT NULL,
    first INTEGER NOT NULL,
    offsets BLOB NOT NULL,
    PRIMARY KEY (run, first)
) WITHOUT ROWID;
CREATE TABLE events (
    num INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    name TEXT,
    data TEXT,
    ts INTEGER,
    recorded_at INTEGER,
    caller TEXT,
    homes TEXT,
    dedupe_id TEXT,
    subject TEXT,
    run TEXT,
    duplicate_of TEXT
);
CREATE INDEX events_id ON events (id);
CREATE INDEX events_recorded ON events (recorded_at);
CREATE INDEX events_name ON events (name, recorded_at);
CREATE TABLE apps (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    url TEXT,
    active INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE workflows (
    app TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    active INTEGER NOT NULL,
    options TEXT NOT NULL,
    PRIMARY KEY (app, name)
) WITHOUT ROWID;
CREATE TABLE registry (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE parked (
    partition INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    error TEXT NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (partition, seq)
) WITHOUT ROWID;
CREATE TABLE gaps (
    partition INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    topic TEXT NOT NULL,
    source INTEGER NOT NULL,
    lost_from INTEGER NOT NULL,
    lost_to INTEGER NOT NULL,
    PRIMARY KEY (partition, seq)
) WITHOUT ROWID;
CREATE TABLE job_rows (
    num INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX jobs_id ON job_rows (id);
CREATE INDEX jobs_created ON job_rows (created_at);
CREATE TABLE carried (
    request TEXT NOT NULL,
    part INTEGER NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (request, part)
) WITHOUT ROWID;
CREATE VIEW runs AS SELECT
    id, app, workflow, kind,
    CASE WHEN status IN ('queued', 'waiting') AND {held} THEN 'paused' ELSE status END AS status,
    created_at,
    json_extract(detail, '$.startedAt') AS started_at,
    json_extract(detail, '$.endedAt') AS ended_at,
    json_extract(detail, '$.endedAt') - json_extract(detail, '$.startedAt') AS duration_ms,
    (SELECT name FROM events WHERE num = event) AS event_name,
    (SELECT id FROM events WHERE num = event) AS event_id,
    output,
    json_extract(detail, '$.error.name') AS error_name,
    json_extract(detail, '$.error.message') AS error_message,
    ifnull(json_extract(detail, '$.attempts'), 0) AS attempts,
    ifnull(json_extract(detail, '$.steps'), 0) AS steps,
    ifnull(
        (SELECT s.control FROM lanes l JOIN scopes s ON s.num = l.scope
         WHERE l.num = json_extract(detail, '$.lane')),
        json_extract(detail, '$.waiting.kind')
    ) AS waiting_for,
    ifnull(
        (SELECT s.due FROM lanes l JOIN scopes s ON s.num = l.scope
         WHERE l.num = json_extract(detail, '$.lane')),
        json_extract(detail, '$.waiting.until')
    ) AS waiting_until,
    (SELECT s.path FROM lanes l JOIN scopes s ON s.num = l.scope
     WHERE l.num = json_extract(detail, '$.lane')) AS waiting_key,
    (SELECT s.value FROM lanes l JOIN scopes s ON s.num = l.scope
     WHERE l.num = json_extract(detail, '$.lane')) AS waiting_value,
    ifnull(json_extract(detail, '$.pauses[0].reason'),
        CASE WHEN status IN ('queued', 'waiting') AND {held} THEN 'budget' END) AS paused_by,
    json_extract(detail, '$.parent') AS parent,
    json_extract(detail, '$.failedRun') AS failed_run,
    json_extract(detail, '$.failureRun') AS failure_run,
    json_extract(detail, '$.replayOf') AS replay_of,
    json_extract(detail, '$.replayStep') AS replay_step,
    json_extract(detail, '$.job') AS job,
    json_extract(detail, '$.caller.kind') AS caller_kind,
    json_extract(detail, '$.caller.id') AS caller_id,
    json_extract(detail, '$.runner') AS runner,
    ifnull(json_extract(detail, '$.tokens'), 0) AS tokens,
    ifnull(json_extract(detail, '$.cost'), 0) AS cost_micros,
    ifnull(json_extract(detail, '$.costUnknown'), 0) AS cost_unknown,
    ifnull(json_extract(detail, '$.usageUnknown'), 0) AS usage_unknown,
    num >> 51 AS partition,
    num & 2251799813685247 AS first_seq,
    json_extract(detail, '$.lastSeq') AS last_seq,
    json_extract(detail, '$.lastOffset') AS last_offset
FROM run_rows r;
CREATE VIEW jobs AS SELECT
    id, status, created_at,
    json_extract(detail, '$.endedAt') AS ended_at,
    json_extract(detail, '$.act') AS act,
    json_extract(detail, '$.filter') AS filter,
    ifnull(json_extract(detail, '$.total'), 0) AS total,
    ifnull(json_extract(detail, '$.done'), 0) AS done,
    ifnull(json_extract(detail, '$.refused'), 0) AS refused,
    json_extract(detail, '$.caller.id') AS caller_id
FROM job_rows;
"""
TABLES = TABLES.replace("{held}", HELD) + FLOW_TABLES

_STEP_COLUMNS = """
    json_extract({d}, '$.step') AS step,
    ifnull(json_extract({d}, '$.n'), 0) AS n,
    ifnull(json_extract({d}, '$.status'), 'waiting') AS status,
    json_quote(json_extract({d}, '$.output')) AS output,
    ifnull(json_extract({d}, '$.kind'), 'run') AS kind,
    ifnull(json_extract({d}, '$.attempts'), 0) AS attempts,
    json_extract({d}, '$.failures[#-1].error.message') AS error_message,
    json_extract({d}, '$.calledAt') AS called_at,
    json_extract({d}, '$.startedAt') AS started_at,
    json_extract({d}, '$.endedAt') AS ended_at,
    json_extract({d}, '$.due') AS due,
    json_extract({d}, '$.retryAt') AS retry_at,
    json_extract({d}, '$.child') AS child,
    ifnull(json_extract({d}, '$.carried'), 0) AS carried,
    ifnull(json_extract({d}, '$.number'), 0) AS number,
    ifnull(json_extract({d}, '$.seen'), 0) AS seen,
    json_extract({d}, '$.spend.model') AS model,
    ifnull(json_extract({d}, '$.spend.tokens'), 0) AS tokens,
    ifnull(json_extract({d}, '$.spend.cost'), 0) AS cost_micros,
    json_extract({d}, '$.seq') AS seq
"""
TABLES += (
    "CREATE VIEW steps AS SELECT r.id AS run_id,"
    + _STEP_COLUMNS.format(d="s.value")
    + "FROM run_rows r, json_each(r.steps) s UNION ALL SELECT r.id,"
    + _STEP_COLUMNS.format(d="s.detail")
    + "FROM run_rows r JOIN step_rows s ON s.run = r.num;\n"
)

SEARCH = """
CREATE VIRTUAL TABLE search USING fts5(text, content='', tokenize='unicode61');
"""

NAMES = (
    ("view", "runs"),
    ("view", "steps"),
    ("view", "event_runs"),
    ("view", "jobs"),
    *(
        ("table", name)
        for name in (
            "search",
            "meta",
            "positions",
            "run_rows",
            "step_rows",
            "facts",
            "events",
            "apps",
            "workflows",
            "registry",
            "parked",
            "gaps",
            "job_rows",
            "carried",
            *FLOW_NAMES,
        )
    ),
)
"""What is dropped when the view is rebuilt, in this order."""
