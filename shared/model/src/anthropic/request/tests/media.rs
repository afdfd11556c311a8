//! Pictures and documents of results and of the user, for models that see and models that do not.

use super::{Anthropic, SEEING, assistant, blocks, call, check, encode_for, model, without_mark};
use cairn_engine::message::{Media, Message};
use serde_json::{Value, json};

fn media(mime: &str) -> Media {
    Media {
        mime: mime.to_owned(),
        data: vec![1, 2, 3],
    }
}

/// A block that a model sees.
fn block(kind: &str, mime: &str) -> Value {
    json!({"type": kind, "source": {"type": "base64", "media_type": mime, "data": "AQID"}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// What stands for a file that the model cannot read.
fn note(mime: &str) -> String {
    format!("[a file of type {mime} with 3 bytes was left out: this model cannot read it]")
}

/// The blocks behind a reply with two calls, of which the first one has this result.
fn encoded(model: &Anthropic, (said, is_error): (&str, bool), media: &[Media]) -> Vec<Value> {
    let messages = [
        Message::user("Read."),
        assistant(vec![call("a"), call("b")]),
        Message::tool("a", said, is_error).with_media(media.to_vec()),
        Message::tool("b", "other", false),
        Message::user("Now?"),
    ];
    let body = encode_for(model, &messages, 0);
    check(&body);
    let blocks = blocks(&body).into_iter().skip(3);
    blocks.map(|(_, block)| block).collect()
}

/// The same with this content of the first result, and these blocks behind the second one.
fn expected(is_error: bool, content: &Value, behind: &[Value]) -> Vec<Value> {
    let mut result = json!({"type": "tool_result", "tool_use_id": "a", "content": content});
    if is_error {
        result["is_error"] = json!(true);
    }
    let other = json!({"type": "tool_result", "tool_use_id": "b", "content": "other"});
    [&[result, other][..], behind, &[text("Now?")]].concat()
}

#[test]
fn a_model_that_sees_gets_media_in_the_result_and_those_of_an_error_behind_it() {
    let (png, pdf) = (
        block("image", "image/png"),
        block("document", "application/pdf"),
    );
    let in_text = format!("seen\n\n{}", note("audio/wav"));
    for (said, is_error, mimes, content, behind) in [
        (
            "seen",
            false,
            vec!["image/png"],
            json!([text("seen"), png]),
            vec![],
        ),
        (" ", false, vec!["image/png"], json!([png]), vec![]),
        (
            "seen",
            false,
            vec!["application/pdf", "audio/wav"],
            json!([text("seen"), text(&note("audio/wav")), pdf]),
            vec![],
        ),
        // Text alone is no list.
        ("seen", false, vec!["audio/wav"], json!(in_text), vec![]),
        ("no", true, vec!["image/png"], json!("no"), vec![png]),
    ] {
        let media: Vec<_> = mimes.iter().map(|mime| media(mime)).collect();
        let sent = encoded(&SEEING, (said, is_error), &media);
        assert_eq!(sent, expected(is_error, &content, &behind), "{mimes:?}");
    }
}

#[test]
fn a_model_that_does_not_see_reads_what_was_left_out() {
    let blind = model(false, None);
    let media = [media("image/png"), media("application/pdf")];
    let notes = [note("image/png"), note("application/pdf")].join("\n\n");
    for (said, is_error, content) in [
        ("seen", false, format!("seen\n\n{notes}")),
        ("", false, notes.clone()),
        ("no", true, format!("no\n\n{notes}")),
    ] {
        let sent = encoded(&blind, (said, is_error), &media);
        assert_eq!(sent, expected(is_error, &json!(content), &[]));
    }
}

#[test]
fn pictures_of_the_user_go_the_same_way() {
    let messages = [Message::user("Look.").with_media([media("image/png")])];
    let sent = |model: &Anthropic| {
        let body = encode_for(model, &messages, 0);
        without_mark(&body["messages"][0]["content"][1])
    };
    assert_eq!(sent(&SEEING), block("image", "image/png"));
    assert_eq!(sent(&model(false, None)), text(&note("image/png")));
}
