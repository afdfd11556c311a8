//! A plan as people write it: the JSON that `cairn run --plan` reads.

use super::event_json::order;
use cairn_proto::event::PlanStep;
use cairn_proto::orchestrator::GetPlanResponse;
use serde_json::{Map, Value, json};

/// The plan in force as a document, without what need not be written.
pub fn document(plan: &GetPlanResponse) -> Value {
    let order = order(plan.order);
    let is_graph = order == "graph";
    let steps = plan.steps.iter().filter_map(|step| step.step.as_ref());
    let steps: Vec<_> = steps.map(|step| self::step(step, is_graph)).collect();
    json!({"order": order, "steps": steps})
}

fn step(step: &PlanStep, is_graph: bool) -> Value {
    let mut fields = Map::new();
    let mut text = |name: &str, text: &str| {
        if !text.is_empty() {
            fields.insert(name.to_owned(), text.into());
        }
    };
    // In a chain an id that is only a number says nothing, and would be that of another step once
    // one is put in before it.
    let is_number = step.id.bytes().all(|b| b.is_ascii_digit());
    if is_graph || !is_number {
        text("id", &step.id);
    }
    text("title", &step.title);
    text("description", &step.description);
    text("external_id", &step.external_id);
    text("note", &step.note);
    if let Some(tool) = &step.tool {
        text("tool", &tool.name);
        let arguments = serde_json::from_str(&tool.arguments_json);
        let arguments = arguments.unwrap_or_else(|_| json!({}));
        fields.insert("arguments".to_owned(), arguments);
    }
    let mut list = |name: &str, texts: &[String]| {
        if !texts.is_empty() {
            fields.insert(name.to_owned(), texts.into());
        }
    };
    if is_graph {
        list("depends_on", &step.depends_on);
    }
    list("capabilities", &step.capabilities);
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_planner::JsonPlanParser;
    use cairn_proto::event::{Order, Plan, ToolInvocation};
    use cairn_proto::orchestrator::PlannedStep;

    fn plan(order: Order, steps: Vec<PlanStep>) -> GetPlanResponse {
        let steps = steps.into_iter().map(|step| PlannedStep {
            step: Some(step),
            ..PlannedStep::default()
        });
        GetPlanResponse {
            order: order.into(),
            steps: steps.collect(),
            ..GetPlanResponse::default()
        }
    }

    fn model(id: &str, depends_on: &[&str]) -> PlanStep {
        PlanStep {
            id: id.to_owned(),
            title: format!("T{id}"),
            description: "Do it.\nWell.".to_owned(),
            depends_on: depends_on.iter().map(|&id| id.to_owned()).collect(),
            capabilities: vec!["file_ops".to_owned()],
            external_id: format!("T-{id}"),
            note: "Look twice.\nThen write.".to_owned(),
            ..PlanStep::default()
        }
    }

    fn tool(id: &str) -> PlanStep {
        PlanStep {
            id: id.to_owned(),
            tool: Some(ToolInvocation {
                name: "record".to_owned(),
                arguments_json: r#"{"what":["x",1.5]}"#.to_owned(),
            }),
            ..PlanStep::default()
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same_plan() {
        let read = |plan: &GetPlanResponse| {
            let text = document(plan).to_string();
            let draft = JsonPlanParser::strict().read(&text).unwrap();
            (text, Plan::from(draft))
        };
        let steps = vec![model("1", &["b"]), model("b", &[]), tool("c")];
        let (_, back) = read(&plan(Order::Graph, steps.clone()));
        assert_eq!(back.steps, steps);
        // Where each step waits for the one before it, that need not be written.
        let chain = vec![model("1", &[]), model("2", &["1"]), tool("last")];
        let (text, back) = read(&plan(Order::Chain, chain));
        assert!(!text.contains("depends_on"), "{text}");
        let ids: Vec<_> = back.steps.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(ids, ["", "", "last"]);
        assert_eq!(back.steps[2].tool, tool("").tool);
    }
}
