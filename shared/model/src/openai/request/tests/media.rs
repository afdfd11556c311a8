//! Pictures of results and of the user, for models that see and models that do not.

use super::{OpenAi, SEEING, check, encode_for, model};
use cairn_engine::message::{Media, Message, Part, Role, ToolCall};
use serde_json::{Value, json};

fn media(mime: &str) -> Media {
    Media {
        mime: mime.to_owned(),
        data: vec![1, 2, 3],
    }
}

/// A picture that a model sees.
fn image() -> Value {
    json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// What stands for a file that the model cannot read.
fn note(mime: &str) -> String {
    format!("[a file of type {mime} with 3 bytes was left out: this model cannot read it]")
}

/// The messages behind a reply with three calls, whose results have these texts and media.
fn encoded(model: &OpenAi, results: &[(&str, bool, &[&str])]) -> Vec<Value> {
    let calls = ["a", "b", "c"].map(|id| {
        Part::Call(ToolCall {
            id: id.to_owned(),
            name: "read".to_owned(),
            arguments: "{}".to_owned(),
        })
    });
    let reply = Message {
        role: Role::Assistant,
        parts: calls.to_vec(),
    };
    let mut messages = vec![Message::user("Read."), reply];
    for ((said, is_error, mimes), id) in results.iter().zip(["a", "b", "c"]) {
        let media = mimes.iter().map(|mime| media(mime));
        messages.push(Message::tool(id, *said, *is_error).with_media(media));
    }
    messages.push(Message::user("Now?"));
    let sent = encode_for(model, &messages);
    check(&sent);
    sent[2..].to_vec()
}

/// The results of the three calls, and what follows them.
fn expected(results: [&str; 3], pictures: Option<Value>) -> Vec<Value> {
    let mut expected = Vec::new();
    for (content, id) in results.into_iter().zip(["a", "b", "c"]) {
        expected.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
    }
    expected.extend(pictures.map(|parts| json!({"role": "user", "content": parts})));
    expected.push(json!({"role": "user", "content": "Now?"}));
    expected
}

const RESULTS: [(&str, bool, &[&str]); 3] = [
    (
        "seen",
        false,
        &["image/png", "application/pdf", "image/png"],
    ),
    ("", false, &["audio/wav"]),
    ("no", true, &["image/png"]),
];

#[test]
fn a_model_that_sees_gets_the_pictures_behind_all_results() {
    let (pdf, wav) = (note("application/pdf"), note("audio/wav"));
    let of = |id: &str| text(&format!("[from the result of the tool call {id}]"));
    let pictures = json!([of("a"), image(), image(), of("c"), image()]);
    let seen = format!("seen\n\n{pdf}");
    assert_eq!(
        encoded(&SEEING, &RESULTS),
        expected([&seen, &wav, "error: no"], Some(pictures))
    );
    let without = [("", false, [].as_slice()); 3];
    assert_eq!(encoded(&SEEING, &without), expected(["(empty)"; 3], None));
}

#[test]
fn a_model_that_does_not_see_reads_what_was_left_out() {
    let [png, pdf] = ["image/png", "application/pdf"].map(note);
    let seen = format!("seen\n\n{png}\n\n{pdf}\n\n{png}");
    let no = format!("error: no\n\n{png}");
    assert_eq!(
        encoded(&model(false, None), &RESULTS),
        expected([&seen, &note("audio/wav"), &no], None)
    );
}

#[test]
fn pictures_of_the_user_go_the_same_way() {
    let files = [media("image/png"), media("application/zip")];
    let messages = [Message::user("Look.").with_media(files)];
    let content = |model: &OpenAi| encode_for(model, &messages)[0]["content"].clone();
    let zip = note("application/zip");
    assert_eq!(
        content(&SEEING),
        json!([text("Look."), image(), text(&zip)])
    );
    let all = ["Look.", &note("image/png"), &zip].join("\n\n");
    assert_eq!(content(&model(false, None)), all);
}
