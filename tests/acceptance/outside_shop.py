"""A workflow for events from outside."""

from duraton import define_workflow
from duraton.context import StepContext


async def handle_order(ctx: StepContext) -> object:
    return await ctx.step.run("ship", lambda: f"order {ctx.event.data['orderId']} shipped")


order = define_workflow("order.created", handle_order)
