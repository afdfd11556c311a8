//! What holds for every text and every plan.

use cairn_engine::plan::{Order, Plan, PlanDraft, StepDraft, ToolInvocation};
use cairn_planner::JsonPlanParser;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON, with the words of plans in it more often than chance would have them.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("steps"),
        Just("order"),
        Just("id"),
        Just("title"),
        Just("description"),
        Just("tool"),
        Just("arguments"),
        Just("depends_on"),
        Just("capabilities"),
        Just("external_id"),
        Just("note"),
        Just("chain"),
        Just("graph"),
        Just("1"),
        Just(""),
        Just("}{"),
    ];
    let word = word.prop_map(str::to_owned).boxed();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        let fields = prop::collection::vec((word.clone(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A text with something in it: the strings that serialise to themselves and may be trimmed.
fn text() -> impl Strategy<Value = String> {
    "[a-zA-Zäß石{}\"\\\\`\n ]{0,12}[a-z]"
}

/// Plans in which steps depend only on earlier ones, so that there is no circle.
fn any_plan() -> impl Strategy<Value = PlanDraft> {
    let arguments = prop::collection::vec((text(), text()), 0..3).prop_map(|fields| {
        let fields: Map<String, Value> = fields
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect();
        Value::Object(fields).to_string()
    });
    let tool = (text(), arguments).prop_map(|(name, arguments)| ToolInvocation { name, arguments });
    let step = (
        any::<bool>(),
        prop_oneof![Just(String::new()), text()],
        text(),
        prop::option::of(tool),
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        prop::collection::vec(Just("file_ops".to_owned()), 0..2),
        ("[A-Z0-9/-]{0,8}", prop_oneof![Just(String::new()), text()]),
    );
    (any::<bool>(), prop::collection::vec(step, 1..8)).prop_map(|(graph, parts)| {
        let mut steps: Vec<StepDraft> = Vec::new();
        for (at, (named, title, description, tool, changes, capabilities, beside)) in
            parts.into_iter().enumerate()
        {
            let earlier = changes
                .iter()
                .filter(|_| graph && at > 0)
                .map(|change| change.index(at));
            let name = |at: usize| match steps[at].id.as_str() {
                "" => (at + 1).to_string(),
                id => id.to_owned(),
            };
            let depends_on = earlier.map(name).collect();
            let id = if named {
                format!("s-{at}")
            } else {
                String::new()
            };
            steps.push(StepDraft {
                redo: 0,
                id,
                title,
                description,
                tool,
                depends_on,
                capabilities,
                external_id: beside.0,
                note: beside.1,
            });
        }
        let order = if graph { Order::Graph } else { Order::Chain };
        PlanDraft { order, steps }
    })
}

/// The plan as a person would write it: what is empty is left out.
fn write(plan: &PlanDraft) -> Value {
    let step = |step: &StepDraft| {
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value, is_empty: bool| {
            if !is_empty {
                fields.insert(key.to_owned(), value);
            }
        };
        put("id", json!(step.id), step.id.is_empty());
        put("title", json!(step.title), step.title.is_empty());
        put(
            "description",
            json!(step.description),
            step.description.is_empty(),
        );
        put(
            "depends_on",
            json!(step.depends_on),
            step.depends_on.is_empty(),
        );
        put(
            "capabilities",
            json!(step.capabilities),
            step.capabilities.is_empty(),
        );
        put(
            "external_id",
            json!(step.external_id),
            step.external_id.is_empty(),
        );
        put("note", json!(step.note), step.note.is_empty());
        if let Some(tool) = &step.tool {
            put("tool", json!(tool.name), false);
            let arguments = serde_json::from_str(&tool.arguments).expect("JSON");
            put("arguments", arguments, false);
        }
        Value::Object(fields)
    };
    let steps: Vec<Value> = plan.steps.iter().map(step).collect();
    json!({"order": if plan.order == Order::Graph { "graph" } else { "chain" }, "steps": steps})
}

proptest! {
    #[test]
    fn no_json_makes_the_parser_panic(value in any_json()) {
        for text in [value.to_string(), json!({"steps": [value]}).to_string()] {
            for parser in [JsonPlanParser::lenient(), JsonPlanParser::strict()] {
                if let Ok(draft) = parser.read(&text) {
                    prop_assert!(Plan::new(&draft).is_ok());
                }
            }
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(
        value in any_json(),
        before in "[{}\\[\\]\"a:,\n é]{0,20}",
        cut in any::<prop::sample::Index>(),
    ) {
        let text = before + &value.to_string();
        let cut = text.floor_char_boundary(cut.index(text.len() + 1));
        for text in [&text[..cut], &text[cut..]] {
            let _ = JsonPlanParser::lenient().draft(text);
            let _ = JsonPlanParser::strict().draft(text);
        }
    }

    #[test]
    fn a_plan_that_was_written_is_read_back(plan in any_plan(), pretty in any::<bool>()) {
        let value = write(&plan);
        let text = if pretty {
            serde_json::to_string_pretty(&value).expect("JSON")
        } else {
            value.to_string()
        };
        prop_assert_eq!(&JsonPlanParser::strict().read(&text).expect("a plan"), &plan);
        let wrapped = format!("Here {{it}} is:\n```json\n{text}\n```\nDone.");
        let mut of_model = plan;
        for step in &mut of_model.steps {
            (step.external_id, step.note) = (String::new(), String::new());
        }
        let read = JsonPlanParser::lenient().read(&wrapped).expect("a plan");
        prop_assert_eq!(read, of_model);
    }
}
