"""Price tables: costs in whole micro-dollars, names of models, what is refused."""

import json

import pytest

from duraton_schemas.default_prices import DEFAULT_PRICES
from duraton_schemas.errors import PricesError
from duraton_schemas.prices import COST_MAX, ModelPrice, PriceTable, read_prices, write_prices


@pytest.mark.parametrize(
    ("price", "counts", "micros"),
    [
        (ModelPrice(2.5, 10.0), (1000, 100), 3_500),
        (ModelPrice(2.5, 10.0, cached_input=1.25), (1000, 100, 900), 2_375),
        (ModelPrice(3.0, 15.0, 0.3, 3.75), (1000, 10, 900, 50), 758),  # 150 + 270 + 187.5 + 150
        (ModelPrice(0.05, 0.4), (1, 0), 1),
        (ModelPrice(0.1, 0.2), (30, 0), 3),
        (ModelPrice(0.0, 0.0), (10**6, 10**6), 0),
        (ModelPrice(1.0, 1.0), (0, 0), 0),
        (ModelPrice(1.0, 1.0, 0.0), (10, 0, 99, 99), 0),
        (ModelPrice(1e6, 1e6), (2**53 - 1, 2**53 - 1), COST_MAX),
    ],
)
def test_costs_are_exact_and_rounded_up_once(price, counts, micros):
    assert price.cost(*counts) == micros


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("gpt-4o", True),
        ("gpt-4o-2024-08-06", True),
        ("claude-sonnet-4-5-20250929", True),
        ("claude-3-5-haiku-latest", True),
        ("gpt-4o-audio", False),
        ("gpt-4o-2024", False),
        ("-2024-08-06", False),
        ("gpt-4", False),
        ("", False),
        (None, False),
    ],
)
def test_a_date_at_a_name_s_end_has_the_price_of_the_name(asked, found):
    assert (DEFAULT_PRICES.price(asked) is not None) == found


def test_a_dated_name_of_the_table_itself_comes_first():
    dear = ModelPrice(9.0, 9.0)
    table = PriceTable("1", {"m": ModelPrice(1.0, 1.0), "m-20250101": dear})
    assert table.price("m-20250101") is dear


def test_the_built_in_table_can_work_and_be_put_back():
    DEFAULT_PRICES.check()
    assert read_prices(write_prices(DEFAULT_PRICES)) == DEFAULT_PRICES
    for model, price in DEFAULT_PRICES.models.items():
        assert price.cached_input <= price.input <= price.output or "embedding" in model


def table(**more):
    return json.dumps({"version": "1", "models": {"m": {"input": 1, "output": 2}}} | more)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("{", "cannot be read"),
        ("[" * 10_000, "cannot be read"),
        (b"\xff", "cannot be read"),
        ("5", "cannot be read"),
        (table(version=""), "version"),
        (table(version="x" * 101), "version"),
        (table(version=5), "version"),
        (table(note="x"), "note"),
        (table(models={"m": {"input": 1}}), "model 'm': .*output"),
        (table(models={"m": {"input": -1, "output": 1}}), "m: a price"),
        (table(models={"m": {"input": 1, "output": 1e9}}), "m: a price"),
        (table(models={"m": {"input": "1", "output": 1}}), "model 'm': .*input"),
        (table(models={"m": {"input": 1, "output": 1, "cached": 1}}), "model 'm': .*cached"),
        (table(models={"m": 5}), "model 'm'"),
        (table(models={"": {"input": 1, "output": 1}}), "name"),
        (table(models={"x" * 201: {"input": 1, "output": 1}}), "name"),
        (table(models={f"m{n}": {"input": 1, "output": 1} for n in range(5_001)}), "5000"),
        ('{"version":"1","models":{"m":{"input":1e999,"output":1}}}', "cannot be read"),
        ('{"version":"1","models":{"m":{"input":NaN,"output":1}}}', "cannot be read"),
        (table(version="x" * (1 << 20)), "limit"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_work_is_refused(raw, says):
    with pytest.raises(PricesError, match=says):
        read_prices(raw)
