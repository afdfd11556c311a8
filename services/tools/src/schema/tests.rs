use super::*;
use serde_json::json;

fn schema() -> Schema {
    Schema::compile(&json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 5},
            "max": {"type": "integer", "minimum": 1, "maximum": 10},
            "mode": {"enum": ["append", "replace"]},
            "ratio": {"type": ["number", "null"]},
            "steps": {"type": "array", "maxItems": 2, "items": {
                "type": "object",
                "properties": {"title": {"type": "string"}},
                "required": ["title"],
                "additionalProperties": false
            }},
            "when": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+$"}]},
            "a/b": {"type": "string"}
        },
        "required": ["path"],
        "additionalProperties": false
    }))
    .unwrap()
}

fn fault(arguments: &Value) -> String {
    match schema().check(arguments) {
        Err(ToolError::InvalidArguments(message)) => message,
        other => panic!("{arguments} gives {other:?}"),
    }
}

#[test]
fn good_arguments_pass() {
    for good in [
        json!({"path": "a"}),
        json!({"path": "äöü🦀ß", "max": 10, "mode": "append", "ratio": null}),
        json!({"path": "a", "max": 3.0, "steps": [{"title": "t"}], "when": "12"}),
    ] {
        schema().check(&good).unwrap();
    }
}

#[test]
fn numbers_of_any_size_are_checked_and_shown_with_their_digits() {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}, "most": {"maximum": 10}}
    }))
    .unwrap();
    let check = |arguments: &str| schema.check(&parse(arguments, 1000).unwrap());
    check(r#"{"id": 1000000000000000000001}"#).unwrap();
    for (arguments, expected) in [
        (
            r#"{"id": 0.10000000000000000000000000000001}"#,
            "id is 0.10000000000000000000000000000001; it must be an integer",
        ),
        (
            r#"{"most": 1000000000000000000001}"#,
            "most is 1000000000000000000001; it must be at most 10",
        ),
        (
            r#"{"most": 1e999999999999}"#,
            "most is 1e+999999999999; it must be at most 10",
        ),
    ] {
        let Err(ToolError::InvalidArguments(message)) = check(arguments) else {
            panic!("{arguments} is accepted");
        };
        assert_eq!(message, expected);
    }
}

#[test]
fn json_in_a_text_is_no_value() {
    // With its feature `raw_value`, the library gives this name a meaning.
    let deep = "[".repeat(100) + &"]".repeat(100);
    let arguments = json!({"a": {"$serde_json::private::RawValue": deep}});
    let parsed = parse(&arguments.to_string(), 1000).unwrap();
    assert_eq!(parsed, arguments);
}

#[test]
fn faults_name_place_fault_and_what_is_allowed() {
    for (arguments, expected) in [
        (json!({}), "path is missing; it must be a string"),
        (json!({"path": 5}), "path is 5; it must be a string"),
        (
            json!({"path": ""}),
            "path is \"\"; it must have at least 1 character(s)",
        ),
        (
            json!({"path": "abcdef"}),
            "path is \"abcdef\"; it must have at most 5 character(s)",
        ),
        (
            json!({"path": "a", "max": "ten"}),
            "max is \"ten\"; it must be an integer",
        ),
        (
            json!({"path": "a", "max": 0}),
            "max is 0; it must be at least 1",
        ),
        (
            json!({"path": "a", "max": 11}),
            "max is 11; it must be at most 10",
        ),
        (
            json!({"path": "a", "max": 1.5}),
            "max is 1.5; it must be an integer",
        ),
        (
            json!({"path": "a", "mode": "apend"}),
            "mode is \"apend\"; it must be one of \"append\", \"replace\"",
        ),
        (
            json!({"path": "a", "ratio": "1"}),
            "ratio is \"1\"; it must be null or a number",
        ),
        (
            json!({"path": "a", "steps": [{"title": "t"}, {}]}),
            "steps[1].title is missing; it must be a string",
        ),
        (
            json!({"path": "a", "steps": [{"title": "t", "x": 1}]}),
            "steps[0] must not have 'x'; allowed: title",
        ),
        (
            json!({"path": "a", "steps": {}}),
            "steps is an object; it must be an array",
        ),
        (
            json!({"path": "a", "steps": [1, 2, 3]}),
            "steps is an array; it must have at most 2 item(s)",
        ),
        (
            json!({"path": "a", "a/b": 1}),
            "a/b is 1; it must be a string",
        ),
    ] {
        let message = fault(&arguments);
        assert!(message.contains(expected), "{arguments}: {message}");
    }
}

#[test]
fn a_misspelt_property_is_set_right() {
    let message = fault(&json!({"pth": "a", "path": "b"}));
    assert_eq!(
        message,
        "the arguments must not have 'pth'; allowed: path, max, mode, ratio, steps, when, a/b; \
         did you mean 'path'?"
    );
}

#[test]
fn alternatives_are_reported_one_by_one() {
    let message = fault(&json!({"path": "a", "when": "soon"}));
    assert!(message.contains("fits none of the 2 forms"), "{message}");
    assert!(
        message.contains("(1) when is \"soon\"; it must be an integer"),
        "{message}"
    );
    assert!(
        message.contains("(2) when is \"soon\"; it must match the pattern"),
        "{message}"
    );
}

#[test]
fn several_faults_are_reported_at_once_and_large_values_are_cut() {
    let message = fault(&json!({"path": "x".repeat(100_000), "max": 0, "mode": 1}));
    assert!(message.contains("max is 0"), "{message}");
    assert!(message.contains("mode is 1"), "{message}");
    assert!(message.len() < 1000, "{} bytes", message.len());
    let many: Map<String, Value> = (0..1000).map(|n| (format!("extra{n}"), json!(1))).collect();
    assert!(fault(&Value::Object(many)).len() < 2000);
}

#[test]
fn control_characters_in_names_are_escaped() {
    let message = fault(&json!({"path": "a", "evil\nname\u{1b}[31m": 1}));
    assert!(
        !message.contains('\n') && !message.contains('\u{1b}'),
        "{message:?}"
    );
}

#[test]
fn unusable_schemas_are_refused() {
    for (bad, word) in [
        (json!({}), "object"),
        (json!(true), "object"),
        (json!({"type": "string"}), "object"),
        (
            json!({"type": "object", "properties": {"a": {"type": "strin"}}}),
            "strin",
        ),
        (json!({"type": "object", "required": "a"}), "array"),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}}),
            "https",
        ),
        (
            json!({"type": "object", "properties": {"a": {"pattern": "(?=x)"}}}),
            "regex",
        ),
    ] {
        let Err(problem) = Schema::compile(&bad) else {
            panic!("{bad} is accepted");
        };
        assert!(problem.contains(word), "{bad}: {problem}");
    }
}

#[test]
fn patterns_run_in_linear_time() {
    let schema = Schema::compile(&json!({
        "type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}
    }))
    .unwrap();
    let evil = format!("{}!", "a".repeat(50_000));
    assert!(schema.check(&json!({"a": evil})).is_err());
}

#[test]
fn nothing_is_an_empty_object() {
    for nothing in ["", "  ", "\n", "{}"] {
        assert_eq!(parse(nothing, 100).unwrap(), json!({}), "{nothing:?}");
    }
}

#[test]
fn what_is_no_object_is_refused_in_words() {
    for (text, word) in [
        ("[]", "an array"),
        ("null", "null"),
        ("5", "a number"),
        ("\"a\"", "a string"),
        ("true", "a boolean"),
        ("{", "not valid JSON"),
        ("{\"a\": }", "column"),
        ("{\"a\": 1} x", "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ("{\"a\": \"\\ud800\"}", "not valid JSON"),
    ] {
        let Err(ToolError::InvalidArguments(message)) = parse(text, 100) else {
            panic!("{text} is accepted");
        };
        assert!(message.contains(word), "{text}: {message}");
    }
}

#[test]
fn size_and_depth_are_bounded_before_parsing() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert!(parse(&nested(32), 1 << 20).is_ok());
    for levels in [33, 10_000, 100_000] {
        assert!(matches!(
            parse(&nested(levels), 1 << 20),
            Err(ToolError::TooLarge(_))
        ));
        let arrays = "[".repeat(levels);
        assert!(matches!(
            parse(&arrays, 1 << 20),
            Err(ToolError::TooLarge(_))
        ));
    }
    let exact = format!("{{\"a\":\"{}\"}}", "x".repeat(92));
    assert_eq!(exact.len(), 100);
    assert!(parse(&exact, 100).is_ok());
    let Err(ToolError::TooLarge(message)) = parse(&exact, 99) else {
        panic!("too large");
    };
    assert!(
        message.contains("100 bytes") && message.contains("99"),
        "{message}"
    );
}

#[test]
fn brackets_in_strings_do_not_count() {
    let text = format!("{{\"a\":\"{}\\\"[[[\"}}", "[{".repeat(50));
    assert!(parse(&text, 1000).is_ok());
    assert_eq!(depth("{\"a\":[{}],\"b\":{}}"), 3);
    assert_eq!(depth("\"\\\\\"[[["), 3);
}
