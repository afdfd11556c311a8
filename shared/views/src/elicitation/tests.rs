use super::*;

const CONFIRM: &str = r#"{"confirm": {"method": "elicitation/create", "params": {
    "message": "Deploy to prod?", "requestedSchema": {"type": "object",
    "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}}}}"#;
const FORM: &str = r#"{"a": {"method": "elicitation/create", "params": {"message": "Who?",
    "requestedSchema": {"type": "object", "properties": {
    "name": {"type": "string", "description": "in full"},
    "size": {"type": "integer"}, "colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["name"]}}}}"#;

fn answer(requests: &str, text: &str) -> Result<Value, String> {
    let settlement = Settlement::Answer {
        text: text.to_owned(),
    };
    let responses = responses(requests, &settlement)?;
    Ok(serde_json::from_str(&responses).expect("JSON"))
}

#[test]
fn one_field_takes_plain_text() {
    let (question, choices) = question(CONFIRM);
    assert_eq!(question, "Deploy to prod?\n- confirm: true or false");
    assert_eq!(choices, ["true", "false"]);
    let accepted = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    for text in ["yes", "true", " Y ", r#"{"confirm": true}"#] {
        assert_eq!(answer(CONFIRM, text).as_ref(), Ok(&accepted), "{text}");
    }
    let refused = answer(CONFIRM, "perhaps");
    assert_eq!(refused, Err("'confirm' must be true or false".to_owned()));
}

#[test]
fn a_form_takes_an_object_that_fits() {
    let content = json!({"name": "x", "size": 3, "colour": "red"});
    let expected = json!({"a": {"action": "accept", "content": content}});
    assert_eq!(answer(FORM, &content.to_string()), Ok(expected));
    for (text, problem) in [
        (r#"{"size": 3}"#, "'name' is missing: a text"),
        (r#"{"name": 3}"#, "'name' must be a text"),
        (
            r#"{"name": "x", "size": 1.5}"#,
            "'size' must be a whole number",
        ),
        (
            r#"{"name": "x", "colour": "green"}"#,
            "'colour' must be one of red, blue",
        ),
        (
            r#"{"name": "x", "other": 1}"#,
            "'other' is not asked for; allowed are name, size, colour",
        ),
    ] {
        assert_eq!(answer(FORM, text), Err(problem.to_owned()), "{text}");
    }
    let plain = answer(FORM, "x").expect_err("three fields");
    assert!(plain.contains("name: a text (in full)"), "{plain}");
}

#[test]
fn choices_have_titles_and_may_be_several() {
    let form = |schema: Value| {
        json!({"a": {"method": "elicitation/create", "params": {"message": "Which?",
            "requestedSchema": {"type": "object", "properties": {"of": schema}}}}})
        .to_string()
    };
    let content = |value: Value| json!({"a": {"action": "accept", "content": {"of": value}}});
    let titled = json!([{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]);
    let one = form(json!({"type": "string", "oneOf": titled}));
    let (question, choices) = question(&one);
    assert!(question.contains("one of r (Red), b (Blue)"), "{question}");
    assert_eq!(choices, ["r", "b"]);
    for text in ["r", "Red", r#"{"of": "r"}"#] {
        assert_eq!(answer(&one, text), Ok(content(json!("r"))), "{text}");
    }
    for items in [json!({"anyOf": titled}), json!({"enum": ["r", "b"]})] {
        let several = form(json!({"type": "array", "items": items}));
        for text in ["r, b", r#"["r", "b"]"#, r#"{"of": ["r", "b"]}"#] {
            assert_eq!(
                answer(&several, text),
                Ok(content(json!(["r", "b"]))),
                "{text}"
            );
        }
        assert!(answer(&several, "r, g").is_err());
    }
    let named = form(json!({"type": "string", "enum": ["r"], "enumNames": ["Red"]}));
    assert_eq!(answer(&named, "Red"), Ok(content(json!("r"))));
    for schema in [
        json!({"type": "object"}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "integer", "enum": [1, 2]}),
        json!({"type": "string", "enum": []}),
        json!({}),
    ] {
        let problem = check(&form(schema)).expect_err("no kind of a form");
        assert!(problem.contains("the field 'of'"), "{problem}");
    }
}

#[test]
fn a_refusal_declines_every_request() {
    let settlement = Settlement::Deny {
        reason: String::new(),
    };
    let responses = responses(CONFIRM, &settlement).expect("it fits");
    assert_eq!(responses, r#"{"confirm":{"action":"decline"}}"#);
}

#[test]
fn what_people_cannot_answer_is_refused() {
    for requests in [
        "",
        "[]",
        "{}",
        r#"{"a": {"method": "sampling/createMessage", "params": {}}}"#,
        r#"{"a": 1}"#,
    ] {
        assert!(check(requests).is_err(), "{requests}");
    }
    let long = " ".repeat(MAX_INPUT_REQUEST + 1);
    assert!(check(&long).is_err());
}
