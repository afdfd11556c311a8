//! Plans as programs read and write them.

use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A plan.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanJson {
    #[serde(default)]
    order: Order,
    steps: Vec<StepJson>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StepJson {
    id: String,
    title: String,
    description: String,
    tool: Option<ToolJson>,
    depends_on: Vec<String>,
    capabilities: Vec<String>,
    redo: u32,
    external_id: String,
    note: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolJson {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl From<PlanDraft> for PlanJson {
    fn from(plan: PlanDraft) -> Self {
        Self {
            order: plan.order,
            steps: plan.steps.into_iter().map(StepJson::from).collect(),
        }
    }
}

impl From<PlanJson> for PlanDraft {
    fn from(plan: PlanJson) -> Self {
        Self {
            order: plan.order,
            steps: plan.steps.into_iter().map(StepDraft::from).collect(),
        }
    }
}

impl From<StepDraft> for StepJson {
    fn from(step: StepDraft) -> Self {
        let tool = |tool: ToolInvocation| ToolJson {
            // A plan is checked before a hook sees it, so they are an object.
            arguments: serde_json::from_str(&tool.arguments).unwrap_or_default(),
            name: tool.name,
        };
        Self {
            id: step.id,
            title: step.title,
            description: step.description,
            tool: step.tool.map(tool),
            depends_on: step.depends_on,
            capabilities: step.capabilities,
            redo: step.redo,
            external_id: step.external_id,
            note: step.note,
        }
    }
}

impl From<StepJson> for StepDraft {
    fn from(step: StepJson) -> Self {
        let tool = |tool: ToolJson| ToolInvocation {
            name: tool.name,
            arguments: Value::Object(tool.arguments).to_string(),
        };
        Self {
            id: step.id,
            title: step.title,
            description: step.description,
            tool: step.tool.map(tool),
            depends_on: step.depends_on,
            capabilities: step.capabilities,
            redo: step.redo,
            external_id: step.external_id,
            note: step.note,
        }
    }
}
