//! Pictures and files of results: what the model gets of them, and what it reads in place of the others.

use crate::world::{World, finished, graph, look, model_step, tool_step};
use cairn_engine::event::{CallFinished, CallMedia, Event, EventKind};
use cairn_engine::limits::MAX_MEDIA_COUNT;
use cairn_engine::message::{Media, Message};

/// The beginning of a picture of 800 × 600, which is all that is looked at.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x02\x58";

fn media(mime_type: &str, data: &[u8]) -> CallMedia {
    CallMedia {
        mime_type: mime_type.to_owned(),
        name: "chart".to_owned(),
        data: data.to_vec(),
        is_shown: false,
    }
}

/// The first step's call ends with these.
fn ends(world: &mut World, media: Vec<CallMedia>) -> CallFinished {
    let result = CallFinished {
        media,
        ..finished(world.call(1, 0), "seen", "")
    };
    let events = world.report(1, vec![result]);
    let result = events
        .into_iter()
        .find_map(|event: Event| match event.kind {
            EventKind::CallFinished(result) => Some(result),
            _ => None,
        });
    result.expect("a result")
}

fn shown(result: &CallFinished) -> Vec<bool> {
    result.media.iter().map(|media| media.is_shown).collect()
}

#[test]
fn a_model_gets_pictures_and_a_line_about_what_it_does_not_get() {
    let mut world = World::with_plan(graph(vec![model_step("a")]));
    world.reply(1, "", &[look()]);
    let all = vec![
        media("image/png", PNG),
        media("audio/wav\n]", b"sound"),
        media("image/gif", b"GIF"),
        media("image/jpeg", PNG),
    ];
    let result = ends(&mut world, all);
    assert_eq!(shown(&result), [true, false, false, true]);
    let output = "seen\n\
        [a file of type audio/wav\\n] with 5 bytes was left out: models take PNG, JPEG, GIF, WebP and PDF]\n\
        [a file of type image/gif with 3 bytes was left out: it is damaged, or of another type]";
    assert_eq!(result.output, output);
    // Providers refuse one that is called by another type.
    let picture = Media {
        mime: "image/png".to_owned(),
        data: PNG.to_vec(),
    };
    let expected = Message::tool("id-look", output, false).with_media([picture.clone(), picture]);
    let attempt = world.attempt(1);
    let has_it = |world: &World| {
        let said = world.session.said(attempt);
        said.iter().filter(|said| ***said == expected).count()
    };
    assert_eq!(has_it(&world), 1);
    assert_eq!(world.folded(), world.session);
    // It stays in the conversation.
    world.reply(1, "A chart.", &[]);
    assert_eq!(has_it(&world), 1);
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_conversation_has_so_many_pictures() {
    let mut world = World::with_plan(graph(vec![model_step("a")]));
    world.reply(1, "", &[look()]);
    let most = vec![media("image/png", PNG); MAX_MEDIA_COUNT];
    let result = ends(&mut world, most);
    assert_eq!(shown(&result), [true; MAX_MEDIA_COUNT]);
    assert_eq!(result.output, "seen");
    world.reply(1, "", &[look()]);
    let result = ends(&mut world, vec![media("image/png", PNG)]);
    assert_eq!(shown(&result), [false]);
    let why = "left out: the conversation has 20 pictures and files already]";
    assert!(result.output.ends_with(why), "{}", result.output);
}

#[test]
fn a_tool_step_has_no_model_to_show_anything_to() {
    let mut world = World::with_plan(graph(vec![tool_step("a", "look")]));
    let all = vec![media("image/png", PNG), media("audio/wav", b"sound")];
    let result = ends(&mut world, all.clone());
    assert_eq!((result.output.as_str(), result.media), ("seen", all));
}
