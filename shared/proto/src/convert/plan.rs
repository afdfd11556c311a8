//! Plans as they are proposed and kept. `Plan::new` says whether they can be carried out.

use super::error::{ConvertError, repeated};
use super::wire::{OnWire, known};
use crate::event as proto;
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};

impl From<PlanDraft> for proto::Plan {
    fn from(plan: PlanDraft) -> Self {
        Self {
            order: plan.order.to_wire(),
            steps: plan.steps.to_wire(),
        }
    }
}

impl TryFrom<proto::Plan> for PlanDraft {
    type Error = ConvertError;

    fn try_from(plan: proto::Plan) -> Result<Self, ConvertError> {
        Ok(Self {
            order: Order::from_wire(plan.order, "order")?,
            steps: repeated("steps", plan.steps)?,
        })
    }
}

impl From<StepDraft> for proto::PlanStep {
    fn from(step: StepDraft) -> Self {
        Self {
            id: step.id,
            title: step.title,
            description: step.description,
            tool: step.tool.map(Into::into),
            depends_on: step.depends_on,
            capabilities: step.capabilities,
            redo: step.redo,
            external_id: step.external_id,
            note: step.note,
        }
    }
}

impl From<proto::PlanStep> for StepDraft {
    fn from(step: proto::PlanStep) -> Self {
        Self {
            id: step.id,
            title: step.title,
            description: step.description,
            tool: step.tool.map(Into::into),
            depends_on: step.depends_on,
            capabilities: step.capabilities,
            redo: step.redo,
            external_id: step.external_id,
            note: step.note,
        }
    }
}

impl From<ToolInvocation> for proto::ToolInvocation {
    fn from(tool: ToolInvocation) -> Self {
        Self {
            name: tool.name,
            arguments_json: tool.arguments,
        }
    }
}

impl From<proto::ToolInvocation> for ToolInvocation {
    fn from(tool: proto::ToolInvocation) -> Self {
        Self {
            name: tool.name,
            arguments: tool.arguments_json,
        }
    }
}

impl From<Order> for proto::Order {
    fn from(order: Order) -> Self {
        match order {
            Order::Chain => Self::Chain,
            Order::Graph => Self::Graph,
        }
    }
}

impl From<proto::Order> for Order {
    fn from(order: proto::Order) -> Self {
        match order {
            proto::Order::Unspecified | proto::Order::Chain => Self::Chain,
            proto::Order::Graph => Self::Graph,
        }
    }
}

/// An order from a newer version is refused: carried out as a chain, the plan would be another.
impl OnWire<i32> for Order {
    fn to_wire(self) -> i32 {
        proto::Order::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        known::<proto::Order>(wire, field).map(Self::from)
    }
}
