//! What the reference parser understands, and what it says of each fault.

use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use cairn_planner::JsonPlanParser;

fn read(text: &str) -> PlanDraft {
    JsonPlanParser::lenient().read(text).expect("a plan")
}

fn descriptions(text: &str) -> Vec<String> {
    let steps = read(text).steps;
    steps.into_iter().map(|step| step.description).collect()
}

/// Reason and message of the fault in a text.
fn fault(parser: JsonPlanParser, text: &str) -> (String, String) {
    let failure = Failure::from(parser.read(text).expect_err(text));
    assert_eq!(failure.kind, FailureKind::PlanParse);
    assert!(!failure.is_recoverable());
    (failure.reason, failure.message)
}

#[test]
fn a_description_is_enough() {
    let plan = read(r#"{"steps":[{"description":"look around"}]}"#);
    let step = StepDraft {
        description: "look around".to_owned(),
        ..StepDraft::default()
    };
    assert_eq!(plan.order, Order::Chain);
    assert_eq!(plan.steps, [step]);
}

#[test]
fn every_field_is_read() {
    let text = r#"{"order":"graph","steps":[
        {"id":"count","title":"Count","description":"count them","tool":"search_files",
         "arguments":{"pattern":"a}{b","max":3},"capabilities":["file_ops"]},
        {"id":" 7 ","description":"write","depends_on":["count"]},
        {"description":"end","depends_on":[7,"count"]}]}"#;
    let plan = read(text);
    assert_eq!(plan.order, Order::Graph);
    assert_eq!(
        plan.steps[0],
        StepDraft {
            redo: 0,
            id: "count".to_owned(),
            title: "Count".to_owned(),
            description: "count them".to_owned(),
            tool: Some(ToolInvocation {
                name: "search_files".to_owned(),
                arguments: r#"{"pattern":"a}{b","max":3}"#.to_owned(),
            }),
            depends_on: Vec::new(),
            capabilities: vec!["file_ops".to_owned()],
            ..StepDraft::default()
        }
    );
    assert_eq!(plan.steps[1].id, "7");
    assert_eq!(plan.steps[2].depends_on, ["7", "count"]);
}

#[test]
fn numbers_of_arguments_keep_their_digits() {
    let arguments = r#"{"id":1000000000000000000001,"rate":0.10000000000000000000000000000001}"#;
    let text = format!(r#"{{"steps":[{{"tool":"pay","arguments":{arguments}}}]}}"#);
    for parser in [JsonPlanParser::lenient(), JsonPlanParser::strict()] {
        let plan = parser.read(&text).expect("a plan");
        let tool = plan.steps[0].tool.as_ref().expect("a tool");
        assert_eq!(tool.arguments, arguments);
    }
}

#[test]
fn null_counts_as_absent() {
    let text = r#"{"order":null,"steps":[{"id":null,"title":null,"description":"a","tool":null,
        "arguments":null,"depends_on":null,"capabilities":null}]}"#;
    for parser in [JsonPlanParser::lenient(), JsonPlanParser::strict()] {
        let plan = parser.read(text).expect("a plan");
        assert_eq!(plan.steps[0].description, "a");
        assert_eq!(plan.steps[0].tool, None);
    }
}

#[test]
fn what_stands_around_the_plan_does_not_matter() {
    let plan = r#"{"steps":[{"description":"say \"}{\" and ```"}]}"#;
    let want = [r#"say "}{" and ```"#];
    let texts = [
        plan.to_owned(),
        format!("\u{feff}\n  {plan}\n"),
        format!("Here is the plan:\n\n{plan}\n\nTell me if it suits you."),
        format!("```json\n{plan}\n```"),
        format!("Sure!\n```\n{plan}\n```\nDone."),
        format!("~~~\n{plan}\n~~~"),
        format!("I fill {{placeholders}} in: {plan}"),
        format!("A plan is {{\"steps\": […]}}. Mine: {plan}"),
        format!("As you say {{ \"{{\" }}: {plan} and }} more }}"),
        format!("{{\"thinking\": {{\"deep\": [{{}}]}}}}\n{plan}\n{{\"confidence\": 0.9}}"),
        format!("Größe ≤ 3 {{ä}} {plan}"),
    ];
    for text in texts {
        assert_eq!(descriptions(&text), want, "{text}");
    }
}

#[test]
fn of_several_plans_the_last_counts() {
    let text = r#"First I thought {"steps":[{"description":"old"}]}, but better is
        {"steps":[{"description":"new"}]}. An empty object {} changes nothing."#;
    assert_eq!(descriptions(text), ["new"]);
}

#[test]
fn steps_inside_of_a_broken_plan_are_not_a_plan() {
    let text = r#"{"steps":[{"tool":"t","arguments":{"steps":[{"description":"no"}]}},]}"#;
    let (reason, message) = fault(JsonPlanParser::lenient(), text);
    assert_eq!(reason, "BadJson");
    assert!(message.contains("trailing comma"), "{message}");
}

#[test]
fn each_fault_is_named() {
    let step = |fields: &str| format!(r#"{{"steps":[{{"description":"a"}},{{{fields}}}]}}"#);
    let graph = |steps: &str| format!(r#"{{"order":"graph","steps":[{steps}]}}"#);
    let too_many = format!(
        r#"{{"steps":[{}]}}"#,
        [r#"{"description":"a"}"#; 10_001].join(",")
    );
    #[rustfmt::skip]
    let cases: Vec<(String, &str, &str)> = vec![
        (String::new(), "BadJson", "no JSON object found; a plan is an object with a 'steps' array"),
        ("I cannot plan that.".into(), "BadJson", "no JSON object found; a plan is an object with a 'steps' array"),
        ("Plan:\n{\"steps\": [\n  {\"description\": \"ä\" \"b\"}\n]}".into(), "BadJson", "bad JSON at line 3, column 23: expected `,` or `}`"),
        (r#"{"steps":[{"description":"a"}"#.into(), "BadJson", "bad JSON at line 1, column 29: EOF while parsing a list"),
        (r#"{"order":"graph"}"#.into(), "MissingSteps", "missing 'steps' array"),
        (r#"[{"description":"a"}]"#.into(), "MissingSteps", "missing 'steps' array"),
        (r#"{"steps":null}"#.into(), "MissingSteps", "missing 'steps' array"),
        (r#"{"steps":{}}"#.into(), "WrongType", "'steps' must be an array, not an object"),
        (r#"{"steps":[]}"#.into(), "NoSteps", "a plan needs at least one step"),
        (r#"{"steps":["a"]}"#.into(), "WrongType", "steps[0] must be an object, not a string"),
        (step(r#""title":"b""#), "MissingDescription", "step 1 lacks 'description' (counted from 0: steps[1])"),
        (step(r#""description":" ""#), "EmptyField", "steps[1].description is empty"),
        (step(r#""description":3"#), "WrongType", "steps[1].description must be a string, not a number"),
        (step(r#""description":"b","id":"""#), "EmptyField", "steps[1].id is empty"),
        (step(r#""description":"b","id":1.5"#), "WrongType", "steps[1].id must be a string, not a number"),
        (step(r#""description":"b","title":["t"]"#), "WrongType", "steps[1].title must be a string, not an array"),
        (step(r#""description":"b","depends_on":"1""#), "WrongType", "steps[1].depends_on must be an array of strings, not a string"),
        (step(r#""description":"b","depends_on":[true]"#), "WrongType", "steps[1].depends_on[0] must be a string, not a boolean"),
        (step(r#""description":"b","capabilities":["a",""]"#), "EmptyField", "steps[1].capabilities[1] is empty"),
        (step(r#""tool":"t""#), "MissingArguments", "step 1 has a 'tool' but no 'arguments' object; for no arguments write {}"),
        (step(r#""tool":"t","arguments":"{}""#), "WrongType", "steps[1].arguments must be an object, not a string"),
        (step(r#""tool":" ","arguments":{}"#), "EmptyField", "steps[1].tool is empty"),
        (step(r#""description":"b","arguments":{}"#), "ArgumentsWithoutTool", "step 1 has 'arguments' but no 'tool'"),
        (r#"{"order":"tree","steps":[{"description":"a"}]}"#.into(), "UnknownOrder", "unknown order 'tree'; allowed: 'chain', 'graph'"),
        (r#"{"order":1,"steps":[{"description":"a"}]}"#.into(), "WrongType", "'order' must be a string, not a number"),
        (step(r#""description":"b","depends_on":["1"]"#), "DependsOnInChain", "step 1 has 'depends_on' in a plan of order 'chain'; use order 'graph'"),
        (graph(r#"{"description":"a","depends_on":["x"]}"#), "UnknownDependency", "step 0 depends on 'x', which is not a step of this plan"),
        (graph(r#"{"id":"x","description":"a"},{"id":"x","description":"b"}"#), "DuplicateId", "steps 0 and 1 have the same id 'x'; ids must be unique"),
        (too_many, "TooManySteps", "the plan has 10001 steps; at most 10000 are allowed"),
    ];
    for (text, reason, message) in cases {
        let shown = text.chars().take(200).collect::<String>();
        let found = fault(JsonPlanParser::lenient(), &text);
        assert_eq!(found, (reason.to_owned(), message.to_owned()), "{shown}");
    }
}

#[test]
fn a_circle_is_named_step_by_step() {
    let text = r#"{"order":"graph","steps":[
        {"id":"a","description":"a","depends_on":["c"]},
        {"id":"b","description":"b","depends_on":["a"]},
        {"id":"c","description":"c","depends_on":["b"]},
        {"id":"d","description":"d","depends_on":["a"]}]}"#;
    let (reason, message) = fault(JsonPlanParser::lenient(), text);
    assert_eq!(reason, "CircularDependency");
    let circle = message.strip_prefix("steps depend on each other in a circle: ");
    let mut ids: Vec<_> = circle.expect("a circle").split(" → ").collect();
    assert_eq!(ids.first(), ids.last());
    ids.pop();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b", "c"]);
    let alone = r#"{"order":"graph","steps":[{"id":"x","description":"a","depends_on":["x"]}]}"#;
    let (reason, _) = fault(JsonPlanParser::lenient(), alone);
    assert_eq!(reason, "CircularDependency");
}

#[test]
fn a_file_is_read_strictly() {
    let strict = JsonPlanParser::strict();
    let plan = r#"{"steps":[{"description":"a"}]}"#;
    assert!(strict.draft(&format!("\n{plan}\n")).is_ok());
    let cases = [
        (
            format!("{plan}\n{plan}"),
            "BadJson",
            "bad JSON at line 2, column 1: trailing characters",
        ),
        (
            format!("```\n{plan}\n```"),
            "BadJson",
            "bad JSON at line 1, column 1: expected value",
        ),
        (
            "[1]".to_owned(),
            "WrongType",
            "the plan must be an object with 'steps', not an array",
        ),
        (
            r#"{"steps":[{"description":"a"}],"goal":"g"}"#.to_owned(),
            "UnknownField",
            "'goal' is not a field of a plan; allowed here: order, steps",
        ),
        (
            r#"{"steps":[{"description":"a","dependsOn":[]}]}"#.to_owned(),
            "UnknownField",
            "steps[0].dependsOn is not a field of a plan; allowed here: id, title, description, \
             tool, arguments, depends_on, capabilities, external_id, note",
        ),
    ];
    for (text, reason, message) in cases {
        assert_eq!(
            fault(strict, &text),
            (reason.to_owned(), message.to_owned())
        );
    }
    assert!(
        JsonPlanParser::lenient()
            .draft(r#"{"steps":[],"goal":"g"}"#)
            .is_ok()
    );
}

/// People and other systems write them in files; of a model neither is taken.
#[test]
fn external_ids_and_notes_are_read_from_files_alone() {
    let step = r#""description":"a","external_id":"T-17","note":"quietly\nplease""#;
    let text = format!(r#"{{"steps":[{{{step}}},{{"description":"b","note":null}}]}}"#);
    let beside = |parser: JsonPlanParser| {
        let plan = parser.read(&text).expect("a plan");
        let steps = plan.steps.into_iter();
        steps
            .map(|it| (it.external_id, it.note))
            .collect::<Vec<_>>()
    };
    let of = |id: &str, note: &str| (id.to_owned(), note.to_owned());
    let written = [of("T-17", "quietly\nplease"), of("", "")];
    assert_eq!(beside(JsonPlanParser::strict()), written);
    assert_eq!(beside(JsonPlanParser::lenient()), [of("", ""), of("", "")]);
    let strict = JsonPlanParser::strict();
    for (fields, reason, message) in [
        (
            r#""external_id":17"#,
            "WrongType",
            "steps[0].external_id must be a string, not a number",
        ),
        (
            r#""note":["a"]"#,
            "WrongType",
            "steps[0].note must be a string, not an array",
        ),
        (
            &*format!(r#""external_id":"{}""#, "i".repeat(129)),
            "TooLong",
            "the 'external_id' of step 0 has 129 bytes; at most 128 are allowed",
        ),
    ] {
        let text = format!(r#"{{"steps":[{{"description":"a",{fields}}}]}}"#);
        assert_eq!(
            fault(strict, &text),
            (reason.to_owned(), message.to_owned())
        );
    }
}

#[test]
fn a_hostile_text_takes_time_in_proportion_to_its_length() {
    let started = std::time::Instant::now();
    for unit in [
        "{",
        "{\"",
        "{\"a\":",
        "{\"a\":[",
        "{}",
        "{\"a\":\"{\",",
        "\n{",
        "[{\"steps\":",
    ] {
        let text = unit.repeat(1_000_000 / unit.len());
        assert!(JsonPlanParser::lenient().draft(&text).is_err(), "{unit}");
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
