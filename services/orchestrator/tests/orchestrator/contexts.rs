//! Contexts, as clients change, read and watch them.

use crate::support::{World, chain, reply, tool_step};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use pb::context_notice::Notice;
use tonic::{Status, Streaming};

fn message(role: wire::Role, part: wire::part::Part) -> wire::Message {
    wire::Message {
        role: role.into(),
        parts: vec![wire::Part { part: Some(part) }],
    }
}

fn user(text: &str) -> wire::Message {
    message(wire::Role::User, wire::part::Part::Text(text.to_owned()))
}

fn assistant(text: &str) -> wire::Message {
    wire::Message {
        role: wire::Role::Assistant.into(),
        ..user(text)
    }
}

/// The text of a message, if it has any.
fn text(message: Option<&wire::Message>) -> &str {
    let part = message.and_then(|message| message.parts.first()?.part.as_ref());
    match part {
        Some(wire::part::Part::Text(text)) => text,
        _ => "",
    }
}

async fn session(world: &World) -> String {
    let create = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let created = world.client.clone().create_session(create).await;
    created.expect("a session").into_inner().session
}

async fn append(world: &World, session: &str, context: &str, message: wire::Message) -> u64 {
    let append = pb::AppendMessageRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: context.to_owned(),
        message: Some(message),
        ..pb::AppendMessageRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let appended = world.until(contexts.append_message(append)).await;
    appended.expect("it is appended").into_inner().seq
}

async fn create(world: &World, session: &str, context: wire::CreateContext) -> u64 {
    let create = pb::CreateContextRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        context: Some(context),
    };
    let mut contexts = world.contexts.clone();
    let created = world.until(contexts.create_context(create)).await;
    created.expect("it is created").into_inner().seq
}

/// All pages of a list, as texts with their indices.
async fn list(world: &World, list: pb::ListMessagesRequest) -> Vec<(u32, String)> {
    let (mut listed, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListMessagesRequest {
            page_token,
            ..list.clone()
        };
        let page = world.contexts.clone().list_messages(request).await;
        let page = page.expect("a page").into_inner();
        let messages = page.messages.into_iter();
        listed.extend(messages.map(|it| (it.index, text(it.message.as_ref()).to_owned())));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return listed;
        }
    }
}

async fn watch(
    world: &World,
    session: &str,
    context: &str,
    after_seq: u64,
) -> Streaming<pb::WatchContextResponse> {
    let request = pb::WatchContextRequest {
        session: session.to_owned(),
        context: context.to_owned(),
        after_seq,
    };
    let watched = world.contexts.clone().watch_context(request).await;
    watched.expect("a watch").into_inner()
}

async fn next(
    world: &World,
    watched: &mut Streaming<pb::WatchContextResponse>,
) -> pb::WatchContextResponse {
    let message = world.until(watched.message()).await.expect("no error");
    message.expect("more")
}

fn appended(message: &pb::WatchContextResponse) -> Vec<&str> {
    let notices = message.notices.iter().map(|it| it.notice.as_ref());
    let texts = notices.map(|notice| match notice {
        Some(Notice::Appended(appended)) => text(appended.message.as_ref()),
        other => panic!("{other:?}"),
    });
    texts.collect()
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_change_has_the_same_answer() {
    let world = World::new().await;
    let session = session(&world).await;
    append(&world, &session, "", user("only")).await;
    let pop = pb::PopMessageRequest {
        session,
        request_id: world.request_id(),
        ..pb::PopMessageRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let first = world.until(contexts.pop_message(pop.clone())).await;
    let first = first.expect("an answer").into_inner();
    assert_eq!(text(first.message.as_ref()), "only");
    assert_eq!(first.version, 2);
    let again = world.until(contexts.pop_message(pop.clone())).await;
    assert_eq!(again.expect("an answer").into_inner(), first);
    let pop = pb::PopMessageRequest {
        request_id: world.request_id(),
        ..pop
    };
    let none = world.until(contexts.pop_message(pop)).await;
    let none = none.expect("an answer").into_inner();
    assert_eq!((none.message, none.version), (None, 3));
}

#[tokio::test(start_paused = true)]
async fn zones_are_read_in_their_order_page_by_page() {
    let world = World::new().await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        system_prompt: "Be brief.".to_owned(),
        immutable: vec![user("i0"), assistant("i1")],
        window: Some(wire::Window { messages: 2 }),
    };
    create(&world, &session, side).await;
    for n in 2..7 {
        append(&world, &session, "side", user(&format!("m{n}"))).await;
    }
    let request = |zone: pb::Zone, in_window| pb::ListMessagesRequest {
        session: session.clone(),
        context: "side".to_owned(),
        zone: zone.into(),
        in_window,
        page_size: 2,
        page_token: String::new(),
    };
    let pairs = |pairs: &[(u32, &str)]| -> Vec<(u32, String)> {
        pairs
            .iter()
            .map(|(at, text)| (*at, (*text).to_owned()))
            .collect()
    };
    let all = [
        (0, "i0"),
        (1, "i1"),
        (2, "m2"),
        (3, "m3"),
        (4, "m4"),
        (5, "m5"),
        (6, "m6"),
    ];
    for (zone, in_window, wanted) in [
        (pb::Zone::Unspecified, false, &all[..]),
        (pb::Zone::Immutable, false, &all[..2]),
        (pb::Zone::Compressed, false, &[]),
        (pb::Zone::Incremental, false, &all[2..]),
        (pb::Zone::Unspecified, true, &all[5..]),
        (pb::Zone::Incremental, true, &all[5..]),
    ] {
        assert_eq!(list(&world, request(zone, in_window)).await, pairs(wanted));
    }
    let mut contexts = world.contexts.clone();
    let find = pb::FindMessagesRequest {
        session: session.clone(),
        context: "side".to_owned(),
        role: wire::Role::Assistant.into(),
        ..pb::FindMessagesRequest::default()
    };
    let found = contexts
        .find_messages(find)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(found.messages.len(), 1);
    assert_eq!((found.messages[0].index, &*found.next_page_token), (1, ""));
    for (index, wanted) in [(0, "i0"), (6, "m6"), (7, "")] {
        let get = pb::GetMessageRequest {
            session: session.clone(),
            context: "side".to_owned(),
            index,
        };
        let got = contexts
            .get_message(get)
            .await
            .expect("an answer")
            .into_inner();
        assert_eq!(text(got.message.as_ref()), wanted);
        assert_eq!(got.message.is_none(), wanted.is_empty());
    }
    let count = pb::CountMessagesRequest {
        session: session.clone(),
        context: "side".to_owned(),
    };
    let count = contexts
        .count_messages(count)
        .await
        .expect("an answer")
        .into_inner();
    let counts = (
        count.messages,
        count.immutable,
        count.compressed,
        count.incremental,
    );
    assert_eq!((counts, count.is_empty), ((7, 2, 0, 5), false));
    let estimate = pb::EstimateTokensRequest {
        session: session.clone(),
        context: "side".to_owned(),
    };
    let tokens = contexts.estimate_tokens(estimate).await.expect("an answer");
    assert!((7..200).contains(&tokens.into_inner().tokens));
    let contexts = contexts.list_contexts(pb::ListContextsRequest { session });
    let contexts = contexts.await.expect("an answer").into_inner().contexts;
    let named: Vec<_> = contexts
        .iter()
        .map(|it| (&*it.name, it.is_active))
        .collect();
    assert_eq!(named, [("main", true), ("side", false)]);
    assert_eq!(
        (contexts[1].messages, &*contexts[1].system_prompt),
        (7, "Be brief.")
    );
}

#[tokio::test(start_paused = true)]
async fn pages_are_of_one_version() {
    let world = World::new().await;
    let session = session(&world).await;
    for n in 0..3 {
        append(&world, &session, "", user(&format!("m{n}"))).await;
    }
    let mut request = pb::ListMessagesRequest {
        session: session.clone(),
        page_size: 2,
        ..pb::ListMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let first = contexts
        .list_messages(request.clone())
        .await
        .expect("a page")
        .into_inner();
    request.page_token = first.next_page_token;
    append(&world, &session, "", user("m3")).await;
    let refused = contexts
        .list_messages(request.clone())
        .await
        .expect_err("it is refused");
    let error = RpcError::from_status(&refused);
    assert_eq!(error.reason_name(), "VERSION_MISMATCH");
    request.page_token = "2".to_owned();
    let refused = contexts
        .list_messages(request)
        .await
        .expect_err("it is refused");
    assert_eq!(
        RpcError::from_status(&refused).kind(),
        ErrorKind::InvalidArgument
    );
}

#[tokio::test(start_paused = true)]
async fn lines_are_imported_all_or_none_and_exported_as_they_were() {
    let world = World::new().await;
    let session = session(&world).await;
    let import = |jsonl: &str| pb::ImportContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        jsonl: jsonl.to_owned(),
        ..pb::ImportContextRequest::default()
    };
    let line = |text: &str| format!(r#"{{"role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}"#);
    let lines = format!("{}\n\n{}\n", line("a"), line("b"));
    let mut contexts = world.contexts.clone();
    let bad = import(&format!("{lines}no\n"));
    let refused = world
        .until(contexts.import_context(bad))
        .await
        .expect_err("it is bad");
    let error = RpcError::from_status(&refused);
    assert_eq!(error.reason_name(), "BAD_LINE");
    assert_eq!(error.metadata("line"), Some("4"));
    assert!(error.message().starts_with("jsonl line 4: "), "{error}");
    let mut watched = watch(&world, &session, "", 0).await;
    assert_eq!(next(&world, &mut watched).await.notices, []);
    let imported = world.until(contexts.import_context(import(&lines))).await;
    let imported = imported.expect("an answer").into_inner();
    assert_eq!(
        (imported.messages, imported.version, imported.dropped_parts),
        (2, 1, 0)
    );
    assert_eq!(appended(&next(&world, &mut watched).await), ["a", "b"]);
    let large = "x".repeat(700 * 1024);
    append(&world, &session, "", user(&large)).await;
    let export = pb::ExportContextRequest {
        session: session.clone(),
        context: "main".to_owned(),
    };
    let mut exported = contexts
        .export_context(export)
        .await
        .expect("a stream")
        .into_inner();
    let mut jsonl = String::new();
    while let Some(part) = exported.message().await.expect("no error") {
        jsonl += &part.jsonl;
    }
    let wanted = format!("{}\n{}\n{}\n", line("a"), line("b"), line(&large)).replace(' ', "");
    assert_eq!(jsonl.replace(' ', "").len(), wanted.len());
    assert_eq!(jsonl.replace(' ', ""), wanted);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_continues_from_its_cursor_and_ends_with_the_context() {
    let world = World::new().await;
    let session = session(&world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        immutable: vec![user("always")],
        ..wire::CreateContext::default()
    };
    let born = create(&world, &session, side).await;
    let first = append(&world, &session, "side", user("one")).await;
    append(&world, &session, "main", user("elsewhere")).await;
    let second = append(&world, &session, "side", user("two")).await;
    for (after, wanted) in [
        (0, &[(first, "one"), (second, "two")][..]),
        (born, &[(first, "one"), (second, "two")]),
        (first, &[(second, "two")]),
        (second, &[]),
        (second + 1000, &[]),
    ] {
        let mut watched = watch(&world, &session, "side", after).await;
        for (seq, text) in wanted {
            let message = next(&world, &mut watched).await;
            assert_eq!((message.seq, appended(&message)), (*seq, vec![*text]));
        }
        let caught_up = next(&world, &mut watched).await;
        assert!(caught_up.notices.is_empty() && caught_up.seq >= after);
    }
    let mut watched = watch(&world, &session, "side", second).await;
    assert!(next(&world, &mut watched).await.notices.is_empty());
    let destroy = pb::DestroyContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: Some(wire::DestroyContext {
            context: "side".to_owned(),
            conclusions: [("fact".to_owned(), "it rains".to_owned())].into(),
            ask_model: false,
        }),
    };
    let mut contexts = world.contexts.clone();
    let destroyed = world.until(contexts.destroy_context(destroy)).await;
    assert_eq!(destroyed.expect("an answer").into_inner().run, 0);
    assert_eq!(
        world.until(watched.message()).await.expect("no error"),
        None
    );
    let gone = pb::WatchContextRequest {
        session: session.clone(),
        context: "side".to_owned(),
        after_seq: second + 1000,
    };
    let refused = contexts.watch_context(gone).await.expect_err("it is gone");
    assert_eq!(
        RpcError::from_status(&refused).reason_name(),
        "CONTEXT_NOT_FOUND"
    );
    // What came before its end can still be read.
    let mut watched = watch(&world, &session, "side", first).await;
    assert_eq!(appended(&next(&world, &mut watched).await), ["two"]);
    assert_eq!(
        world.until(watched.message()).await.expect("no error"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_and_a_turn_are_noticed_when_they_complete() {
    let world = World::new().await;
    let run = wire::StartRun {
        goal: "Look.".to_owned(),
        ..chain(vec![tool_step("pure")])
    };
    let session = world.start(run).await;
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "seen");
    world.ended(&session).await;
    let mut watched = watch(&world, &session, "", 0).await;
    assert_eq!(appended(&next(&world, &mut watched).await)[0], "Look.");
    assert!(next(&world, &mut watched).await.notices.is_empty());
    let submit = pb::SubmitTurnRequest {
        session: session.clone(),
        request_id: world.request_id(),
        turn: Some(wire::SubmitTurn {
            message: Some(user("hello")),
            ..wire::SubmitTurn::default()
        }),
        ..pb::SubmitTurnRequest::default()
    };
    let mut client = world.client.clone();
    let _turn = world
        .until(client.submit_turn(submit))
        .await
        .expect("a turn");
    let mut attempt = world.attempt().await;
    let busy: Result<_, Status> = {
        let clear = pb::ClearMessagesRequest {
            session: session.clone(),
            request_id: world.request_id(),
            ..pb::ClearMessagesRequest::default()
        };
        let mut contexts = world.contexts.clone();
        world.until(contexts.clear_messages(clear)).await
    };
    let error = RpcError::from_status(&busy.expect_err("the context is busy"));
    assert_eq!(error.reason_name(), "CONTEXT_BUSY");
    attempt.reply(reply(0, "good day", &[]));
    let message = next(&world, &mut watched).await;
    assert_eq!(appended(&message), ["hello", "good day"]);
}
