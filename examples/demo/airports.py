"""The demo's workflow: each airport of a public data set goes through a few steps.

To try it without the demo:

    duraton dev examples/demo/airports.py
    duraton send airport.listed '{"iata": "ZRH", "name": "Zurich Airport", "city": "Zurich",
        "elevation": 1416, "lat": 47.46, "lon": 8.55}'
"""

import math
import os

from duraton import App, NonRetriableError, RetryConfig, define_workflow
from duraton.context import StepContext, current_step

HUBS = {
    "ATL": (33.640, -84.427), "DXB": (25.253, 55.364), "FRA": (50.027, 8.558),
    "GRU": (-23.432, -46.469), "HND": (35.552, 139.780), "JNB": (-26.139, 28.246),
    "LAX": (33.942, -118.408), "LHR": (51.471, -0.462), "SIN": (1.350, 103.994),
    "SYD": (-33.946, 151.177),
}  # fmt: skip
EARTH_RADIUS_KM = 6_371
HIGH_FT = 8_000


async def handle_airport(ctx: StepContext) -> object:
    airport = await ctx.step.run("clean", clean, ctx.event.data)
    nearest = await ctx.step.run("distance", nearest_hub, airport["lat"], airport["lon"])
    weather = await ctx.step.run("weather", ask_weather, airport["iata"])
    if airport["feet"] > HIGH_FT:
        await ctx.step.sleep("acclimatise", "1s")  # holds nothing, and outlives a crash
    return {"airport": airport["name"], **nearest, "weather": weather}


async def handle_failure(ctx: StepContext) -> object:
    return await ctx.step.run("report", report, ctx.event.data["iata"], ctx.error.message)


def clean(record: dict) -> dict:
    """A record in the form that the other steps want; no retry would find its city."""
    count_execution()
    if not record["city"]:
        raise NonRetriableError(f"{record['iata']} has no city")
    return {
        "iata": record["iata"],
        "name": " ".join(record["name"].split()),
        "feet": record["elevation"],
        "lat": record["lat"],
        "lon": record["lon"],
    }


async def nearest_hub(lat: float, lon: float) -> dict:
    count_execution()
    km, hub = min((distance_km((lat, lon), place), hub) for hub, place in HUBS.items())
    return {"hub": hub, "km": round(km)}


async def ask_weather(iata: str) -> str:
    """A service that does not answer the first call for one airport in eight."""
    attempt = count_execution()
    if sum(iata.encode()) % 8 == 0 and attempt == 1:
        raise TimeoutError(f"no answer about {iata}")
    return "clear" if sum(iata.encode()) % 3 else "fog"


async def report(iata: str, reason: str) -> str:
    count_execution()
    return f"{iata} was left out: {reason}"


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """The great-circle distance."""
    (lat1, lon1), (lat2, lon2) = (tuple(map(math.radians, each)) for each in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2
    h += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(h))


# The demo's own evidence: one line for each time that a step's code really ran, in a file
# that the engine knows nothing of.
_ledger_path = os.environ.get("DEMO_LEDGER")
_ledger = os.open(_ledger_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if _ledger_path else None


def count_execution() -> int:
    """Note that the calling step's code runs; which attempt it is."""
    info = current_step()
    if _ledger is not None:
        os.write(_ledger, f"{info.run} {info.step} {info.attempt}\n".encode())
    return info.attempt


app = App(
    "airports",
    workflows=[
        define_workflow(
            "airport.listed",
            handle_airport,
            on_failure=handle_failure,
            retry=RetryConfig(max_attempts=3, backoff="exponential", initial_delay_ms=200),
        )
    ],
)
