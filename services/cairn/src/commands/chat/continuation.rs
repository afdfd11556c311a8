//! `/continue`: a new session that takes the conversation along.
//!
//! The compressed messages and the last turns join the new context as they are and in their order. The model reads
//! the same messages as before, and the first line of a summary says what it is. They join as incremental messages:
//! the next compaction takes an earlier summary in, and an immutable one would stay in every request.

use super::{Chat, agent, mode, start};
use crate::commands::context::rpc;
use crate::error::CliError;
use crate::ui::event_line::nearly_full;
use cairn_engine::session::MAIN;
use cairn_engine::text::counted;
use cairn_proto::event::part::Part;
use cairn_proto::event::{
    CreateContext, Message, Mode, Role, WhenFull, WhenFullChange, WindowChange,
};
use cairn_proto::orchestrator::{ContextSummary, CreateSessionRequest, DeleteSessionRequest, Zone};
use cairn_rpc::text::escape;
use prost::Message as _;

/// Most bytes of the turns that come along, unless the last one alone has more; and of a request's messages,
/// unless it has one.
const MOST_BYTES: usize = 1 << 20;
/// What a message counts beside its bytes. The limits of the services count it in a similar way.
const OVERHEAD: usize = 64;
/// Ends the title of a session that continues another one.
const SUFFIX: &str = " (continued)";
/// Most bytes of a title that the services take.
const MOST_TITLE: usize = 256;

/// The line after a turn that left the journal nearly full; none while there is room. A person at a terminal enters
/// the command here, and elsewhere in the conversation that `come_back` continues.
pub(super) fn offer(journal_permille: u32, come_back: Option<&str>) -> Option<String> {
    let full = nearly_full(journal_permille)?;
    let how = match come_back {
        None => "/continue begins a new session with the summaries and the last turns".to_owned(),
        Some(command) => format!("begin a new session with /continue in: {command}"),
    };
    Some(format!("{full}; {how}"))
}

/// Continues in a new session, and returns what is shown. The old one stays as it is.
///
/// # Errors
/// The service's; then the conversation stays in the old session.
pub(super) async fn run(chat: &mut Chat<'_, '_>) -> Result<Vec<String>, CliError> {
    let old = start::session(chat).await?;
    let name = match chat.context.as_str() {
        "" => old.active_context.clone(),
        name => name.to_owned(),
    };
    let taken = read(chat, &name).await?;
    if taken.messages.is_empty() {
        return Ok(vec!["there are no messages to continue with".to_owned()]);
    }
    agent::keep(chat).await?;
    mode::keep(chat).await?;
    let (new, back) = (start::new_session(), chat.come_back());
    let (count, left_out) = (taken.messages.len(), taken.left_out);
    if let Err(error) = make(chat, &new, title_after(&old.title), taken).await {
        abandon(chat, &new).await?;
        return Err(error);
    }
    let mut lines = vec![format!(
        "this conversation continues in session {new} with {} of the old one",
        counted(count, "message")
    )];
    if left_out > 0 {
        lines.push(format!(
            "{} did not come along; /compact before /continue takes a summary of them",
            counted(left_out, "older message")
        ));
    }
    lines.push(format!("come back to the old session with: {back}"));
    chat.session = new;
    chat.agent.clear();
    chat.mode = Mode::Ask;
    let lines = lines.iter();
    Ok(lines.map(|line| escape(line).into_owned()).collect())
}

/// What a conversation takes along.
#[derive(Debug)]
struct Taken {
    /// The context to create; none for `main`, which every session has.
    context: Option<CreateContext>,
    /// What differs from the settings of a new context.
    settings: (Option<WindowChange>, Option<WhenFullChange>),
    messages: Vec<Message>,
    /// Number of messages that stay in the old session alone.
    left_out: usize,
}

impl Taken {
    fn of(
        context: Option<CreateContext>,
        compressed: Vec<Message>,
        mut incremental: Vec<Message>,
    ) -> Self {
        let left_out = last_turns(&incremental, MOST_BYTES);
        let mut messages = compressed;
        messages.append(&mut incremental.split_off(left_out));
        Self {
            context,
            settings: (None, None),
            messages,
            left_out,
        }
    }
}

/// Reads what the conversation takes along from a context.
async fn read(chat: &mut Chat<'_, '_>, name: &str) -> Result<Taken, CliError> {
    let (client, session) = (&mut *chat.client, &chat.session);
    let (compressed, before) = rpc::messages(client, session, name, Zone::Compressed).await?;
    let (incremental, after) = rpc::messages(client, session, name, Zone::Incremental).await?;
    if before != after {
        let error = CliError::new("the context has changed in the meantime");
        return Err(error.hint("enter /continue again"));
    }
    let mut contexts = rpc::list(client, session).await?.into_iter();
    let own = contexts.find(|context| context.name == name);
    let own = own.unwrap_or_default();
    let settings = settings_of(&own);
    let context = match name == MAIN {
        true => None,
        false => {
            let immutable = rpc::messages(client, session, name, Zone::Immutable).await?;
            Some(CreateContext {
                name: name.to_owned(),
                system_prompt: own.system_prompt,
                immutable: immutable.0,
                ..CreateContext::default()
            })
        }
    };
    Ok(Taken {
        settings,
        ..Taken::of(context, compressed, incremental)
    })
}

/// The changes by which a new context gets the window of another one, and its way with long requests.
fn settings_of(own: &ContextSummary) -> (Option<WindowChange>, Option<WhenFullChange>) {
    let window = own.window.map(|window| WindowChange {
        window: Some(window),
    });
    let when_full = (own.when_full() != WhenFull::Unspecified).then_some(WhenFullChange {
        when_full: own.when_full,
    });
    (window, when_full)
}

/// Creates the session, and its context with these messages.
async fn make(
    chat: &mut Chat<'_, '_>,
    session: &str,
    title: String,
    taken: Taken,
) -> Result<(), CliError> {
    let request = CreateSessionRequest {
        session: session.to_owned(),
        // The same each time, so that it is created once.
        request_id: session.to_owned(),
        title,
        ..CreateSessionRequest::default()
    };
    let created = chat.client.persist(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.create_session(request).await }
    });
    created.await?;
    chat.client.work_on(session)?;
    let mut name = MAIN.to_owned();
    if let Some(context) = taken.context {
        name.clone_from(&context.name);
        rpc::create(chat.client, session, context).await?;
        rpc::switch(chat.client, session, &name).await?;
    }
    if taken.settings != (None, None) {
        rpc::update(chat.client, session, &name, taken.settings).await?;
    }
    for messages in requests(taken.messages) {
        rpc::extend(chat.client, session, messages).await?;
    }
    Ok(())
}

/// Stays in the old session. What was begun of the new one is of no use, also if it cannot be deleted.
async fn abandon(chat: &mut Chat<'_, '_>, new: &str) -> Result<(), CliError> {
    let request = DeleteSessionRequest {
        session: new.to_owned(),
    };
    drop(chat.client.orchestrator().delete_session(request).await);
    chat.client.work_on(&chat.session)
}

/// The title of a session that continues one of that title.
fn title_after(title: &str) -> String {
    let title = title.strip_suffix(SUFFIX).unwrap_or(title);
    let end = title.floor_char_boundary(MOST_TITLE - SUFFIX.len());
    format!("{}{SUFFIX}", &title[..end]).trim().to_owned()
}

/// The place at which the last turns begin that have at most so many bytes: at least the last one, and all
/// messages if no turn begins among them. No result comes without its call.
fn last_turns(messages: &[Message], most: usize) -> usize {
    let (mut from, mut bytes) = (None, 0);
    // Results whose calls are further up.
    let mut open: Vec<&str> = Vec::new();
    for (place, message) in messages.iter().enumerate().rev() {
        bytes += size(message);
        if bytes > most && from.is_some() {
            break;
        }
        for part in message.parts.iter().filter_map(|part| part.part.as_ref()) {
            match part {
                Part::Result(result) => open.push(&result.call_id),
                Part::Call(call) => {
                    let result = open.iter().position(|id| *id == call.id);
                    result.map(|at| open.swap_remove(at));
                }
                _ => {}
            }
        }
        if open.is_empty() && begins_turn(messages, place) {
            from = Some(place);
        }
    }
    from.unwrap_or(0)
}

/// Whether a turn begins with the message: a person speaks after a reply that ended a turn. Within a turn, what
/// a person says comes after results.
fn begins_turn(messages: &[Message], place: usize) -> bool {
    let is_user = |message: &Message| message.role() == Role::User;
    let ends_turn = |message: &Message| {
        let parts = message.parts.iter().filter_map(|part| part.part.as_ref());
        let mut calls = parts.filter(|part| matches!(part, Part::Call(_)));
        message.role() == Role::Assistant && calls.next().is_none()
    };
    let before = place.checked_sub(1).and_then(|place| messages.get(place));
    messages.get(place).is_some_and(is_user) && before.is_none_or(ends_turn)
}

/// The messages in requests that the services take.
fn requests(messages: Vec<Message>) -> Vec<Vec<Message>> {
    let (mut requests, mut bytes): (Vec<Vec<Message>>, usize) = (Vec::new(), 0);
    for message in messages {
        let size = size(&message);
        match requests.last_mut().filter(|_| bytes + size <= MOST_BYTES) {
            Some(request) => {
                request.push(message);
                bytes += size;
            }
            None => {
                requests.push(vec![message]);
                bytes = size;
            }
        }
    }
    requests
}

fn size(message: &Message) -> usize {
    message.encoded_len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{ToolCall, ToolResult};

    fn message(role: Role, part: Part) -> Message {
        Message {
            role: role.into(),
            parts: vec![part.into()],
        }
    }

    fn user(text: &str) -> Message {
        message(Role::User, Part::Text(text.to_owned()))
    }

    fn reply(text: &str) -> Message {
        message(Role::Assistant, Part::Text(text.to_owned()))
    }

    fn call(id: &str) -> Message {
        let id = id.to_owned();
        let call = ToolCall {
            id,
            ..ToolCall::default()
        };
        message(Role::Assistant, Part::Call(call))
    }

    fn result(id: &str) -> Message {
        let call_id = id.to_owned();
        let result = ToolResult {
            call_id,
            ..ToolResult::default()
        };
        message(Role::Tool, Part::Result(result))
    }

    /// Three turns; in the second, a person speaks after a result. All calls have the same id.
    fn turns() -> Vec<Message> {
        vec![
            user("one"),
            call("c"),
            result("c"),
            reply("1"),
            user("two"),
            call("c"),
            result("c"),
            user("shorter"),
            call("c"),
            result("c"),
            reply("2"),
            user("three"),
            reply("3"),
        ]
    }

    fn bytes(messages: &[Message]) -> usize {
        messages.iter().map(size).sum()
    }

    #[test]
    fn whole_turns_come_along_and_at_least_the_last() {
        let all = turns();
        for (most, want) in [
            (0, 11),
            (bytes(&all[11..]), 11),
            (bytes(&all[4..]) - 1, 11),
            (bytes(&all[4..]), 4),
            (bytes(&all) - 1, 4),
            (bytes(&all), 0),
        ] {
            assert_eq!(last_turns(&all, most), want, "{most}");
        }
        // The last turn is longer than what may come along.
        assert_eq!(last_turns(&all[..11], 10), 4);
    }

    #[test]
    fn no_result_comes_without_its_call() {
        // A client has inserted a reply and a message between a call and its result.
        let parted = [
            user("one"),
            call("a"),
            reply("wait"),
            user("two"),
            result("a"),
            reply("1"),
        ];
        assert_eq!(last_turns(&parted, 0), 0);
        // What a compaction left begins within a turn.
        let rest = [call("a"), result("a"), reply("1")];
        assert_eq!(last_turns(&rest, 0), 0);
        assert_eq!(last_turns(&[], 0), 0);
    }

    #[test]
    fn summaries_stand_before_the_last_turns() {
        let large = "x".repeat(MOST_BYTES);
        let mut incremental = vec![user(&large), reply("1")];
        incremental.extend(turns());
        let taken = Taken::of(None, vec![user("a summary")], incremental);
        assert_eq!(taken.left_out, 2);
        assert_eq!(taken.messages[0], user("a summary"));
        assert_eq!(taken.messages[1..], turns());
    }

    #[test]
    fn requests_have_what_the_services_take() {
        let large = user(&"x".repeat(MOST_BYTES / 2 - 2 * OVERHEAD));
        let huge = user(&"x".repeat(2 * MOST_BYTES));
        let all = [&large, &large, &large, &huge, &large].map(Message::clone);
        let lengths: Vec<_> = requests(all.to_vec()).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 1, 1, 1]);
        assert_eq!(requests(all.to_vec()).concat(), all);
    }

    #[test]
    fn a_title_says_once_that_it_is_continued() {
        assert_eq!(title_after("Files"), "Files (continued)");
        assert_eq!(title_after("Files (continued)"), "Files (continued)");
        assert_eq!(title_after(""), "(continued)");
        let long = title_after(&"ä".repeat(200));
        assert!(long.len() <= MOST_TITLE && long.ends_with("ä (continued)"));
    }

    #[test]
    fn a_new_session_is_offered_once_the_journal_is_nearly_full() {
        assert_eq!(offer(899, None), None);
        let here = "the journal is 93 % full; /continue begins a new session with the summaries and the \
                    last turns";
        assert_eq!(offer(934, None).as_deref(), Some(here));
        let elsewhere =
            "the journal is 100 % full; begin a new session with /continue in: cairn chat s-1";
        let offered = offer(1_015, Some("cairn chat s-1"));
        assert_eq!(offered.as_deref(), Some(elsewhere));
    }
}
