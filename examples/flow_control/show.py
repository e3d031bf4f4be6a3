"""Flow control to look at: what starts when under each control, as small text charts.

Starts an engine and a worker, or takes those of a running `duraton dev` with --url; sends
each demo's events, follows its runs through the HTTP API, and draws them. The exit status
is 0 only if every shape holds.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path

import httpx
from chart import draw
from demos import DEMOS, Check, Demo, Load
from follow import APP, Engine, Seen, ShowError
from rich.console import Console
from rich.markup import escape

from duraton import SendError

WIDTH_MAX = 64
BESIDE = 32
"""Letters beside a chart: labels, and what stands behind the rows."""


class Show:
    """The demos that are shown.

    Args:
        engine: The engine, ready.
        demos: The demos, in order.
        console: Where they are shown.
    """

    def __init__(self, engine: Engine, demos: list[Demo], console: Console) -> None:
        self.engine, self.demos, self.console = engine, demos, console
        self.width = max(20, min(WIDTH_MAX, console.width - BESIDE))

    async def run(self) -> bool:
        """Show them all; whether every shape holds.

        Those that need no ceiling go on side by side, since none of them touches another.
        """
        holds = True
        following = asyncio.create_task(self.engine.follow())
        beside = {
            demo.name: asyncio.create_task(self.see(demo, following))
            for demo in self.demos
            if not demo.ceiling
        }
        try:
            for demo in self.demos:
                if demo.name not in beside:
                    await asyncio.gather(*beside.values())
                    seen = await self.see_under_ceiling(demo, following)
                else:
                    seen = await beside[demo.name]
                holds &= await self.tell(demo, seen)
        finally:
            for task in (following, *beside.values()):
                task.cancel()
        return holds

    async def see(self, demo: Demo, following: "asyncio.Task[None]") -> Seen:
        load = Load(self.engine)
        await demo.load(load)
        return await self.engine.see(load.events, demo.complete, following)

    async def see_under_ceiling(self, demo: Demo, following: "asyncio.Task[None]") -> Seen:
        before = await self.engine.get("/project")
        await self.engine.put("/project", {"ceiling": demo.ceiling})
        try:
            return await self.see(demo, following)
        finally:
            await self.engine.put("/project", before)

    async def tell(self, demo: Demo, seen: Seen) -> bool:
        """Draw a demo; whether its shape holds."""
        say = self.console.print
        say(f"\n[bold]{demo.name}[/bold]  {escape(demo.see)}")
        for name in demo.workflows:
            found = await self.engine.get(f"/workflows/{APP}/{name}")
            options = {key: value for key, value in found["options"].items() if key != "name"}
            say(f"  {name} {escape(json.dumps(options))}", style="dim")
        for line, style in draw(demo.rows(seen), self.width):
            say(f"  {escape(line)}", style=style)
        checks: list[Check] = demo.holds(seen)
        for holds, text in checks:
            mark = "[green]yes[/green]" if holds else "[red]NO [/red]"
            say(f"  {mark}  {escape(text)}")
        return all(holds for holds, _ in checks)


async def main(url: str | None, demos: list[Demo], folder: Path, console: Console) -> int:
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Engine(url, folder) as engine:
        console.print(
            f"[bold]Flow control[/bold] on {engine.url}.\nEach column "
            "is a slice of time, and says how many events or starts fall into it,\nor how many "
            "runs were at work.",
        )
        holds = await Show(engine, demos, console).run()
    if holds:
        console.print("\n[bold]Every shape holds.[/bold]")
        return 0
    console.print("\n[bold red]Not every shape holds.[/bold red]")
    return 1


def read_arguments() -> argparse.Namespace:
    names = [demo.name for demo in DEMOS]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME",
        help=f"show this one; may be repeated. One of {', '.join(names)}",
    )  # fmt: skip
    parser.add_argument("--url", help="a running engine's, for example that of `duraton dev`")
    return parser.parse_args()


if __name__ == "__main__":
    given = read_arguments()
    console = Console(highlight=False, soft_wrap=True)
    chosen = [demo for demo in DEMOS if not given.only or demo.name in given.only]
    with tempfile.TemporaryDirectory(prefix="duraton-flow-") as made:
        status = 1
        try:
            status = asyncio.run(main(given.url, chosen, Path(made), console))
        except (ShowError, SendError, httpx.HTTPError) as error:
            said = str(error) or type(error).__name__
            console.print(f"\n[red]{escape(said)}[/red]")
        except (KeyboardInterrupt, asyncio.CancelledError):
            console.print("\nstopped")
            status = 130
    sys.exit(status)
