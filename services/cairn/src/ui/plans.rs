//! Plans in events: their steps with the numbers that these have in their run.

use cairn_proto::event::{Plan, PlanApplied, PlanStep};

/// The steps of a plan that came into force, in its order, each with its number.
pub fn numbered(event: &PlanApplied) -> impl Iterator<Item = (u32, &PlanStep)> {
    let steps = event.plan.iter().flat_map(|plan| &plan.steps);
    (0..).zip(steps).map(|(place, step)| {
        // A first plan need not number its steps: they have their places.
        let number = event.numbers.get(place as usize).copied();
        (number.unwrap_or(place + 1), step)
    })
}

/// `1 step, chain`, `5 steps, graph`.
pub fn size_text(steps: usize, order: &str) -> String {
    let noun = if steps == 1 { "step" } else { "steps" };
    format!("{steps} {noun}, {order}")
}

/// `chain` or `graph`.
pub fn order_name(plan: &Plan) -> &'static str {
    use cairn_proto::event::Order;
    match plan.order() {
        Order::Graph => "graph",
        Order::Chain | Order::Unspecified => "chain",
    }
}
