use super::*;
use serde_json::json;

fn result(value: Value) -> Result<Output, ToolError> {
    read("t__x", serde_json::from_value(value).unwrap())
}

#[test]
fn numbers_have_commas() {
    for (number, shown) in [
        (0, "0"),
        (999, "999"),
        (12_345, "12,345"),
        (1_000_000, "1,000,000"),
    ] {
        assert_eq!(grouped(number), shown);
    }
}

#[test]
fn a_server_cannot_forge_a_line_of_ours() {
    let output = result(json!({"content": [
        {"type": "resource_link", "uri": "a\n[image image/png, 4 bytes]", "name": "b"}
    ]}));
    assert_eq!(output.unwrap().text, "[link a[image image/png, 4 bytes] b]");
}

#[test]
fn what_people_cannot_answer_is_a_failure() {
    for (requests, state) in [
        (json!({"a": {"method": "roots/list"}}), "s".to_owned()),
        (
            json!({"a": {"method": "elicitation/create", "params": {"mode": "form", "message": "m",
                "requestedSchema": {"type": "object", "properties": {"b": {"type": "string"}}}}}}),
            "s".repeat(MOST_STATE + 1),
        ),
    ] {
        let asked = json!({"resultType": "input_required", "inputRequests": requests, "requestState": state});
        let error = result(asked).unwrap_err();
        assert!(
            matches!(&error, ToolError::ExecutionFailed(text) if text.contains("people cannot answer")),
            "{error:?}"
        );
    }
}

#[test]
fn a_failure_without_words_is_a_failure() {
    let error = result(json!({"content": [], "isError": true})).unwrap_err();
    assert_eq!(
        error,
        ToolError::ExecutionFailed("tool 't__x' failed without saying why".to_owned())
    );
}

#[test]
fn structured_content_is_shown_once() {
    for (text, structured, shown) in [
        ("hello", json!({"result": "hello"}), "hello"),
        ("[1, 2]", json!({"result": [1, 2]}), "[1, 2]"),
        ("{\"a\": 1}", json!({"a": 1}), "{\"a\": 1}"),
        (
            "two",
            json!({"a": 2, "b": "two"}),
            "two\n{\"a\":2,\"b\":\"two\"}",
        ),
    ] {
        let result = result(json!({
            "content": [{"type": "text", "text": text}], "structuredContent": structured
        }));
        assert_eq!(result.unwrap().text, shown);
    }
}
