//! Changes, and what is read after them.

use super::{append, appended, assistant, create, list, next, session, text, user, watch};
use crate::support::World;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};

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

/// A session whose context `side` has the messages i0, i1 and m2 to m6, and a window of two.
async fn with_side(world: &World) -> String {
    let session = session(world).await;
    let side = wire::CreateContext {
        name: "side".to_owned(),
        system_prompt: "Be brief.".to_owned(),
        immutable: vec![user("i0"), assistant("i1")],
        window: Some(wire::Window { messages: 2 }),
        ..wire::CreateContext::default()
    };
    create(world, &session, side).await;
    for n in 2..7 {
        append(world, &session, "side", user(&format!("m{n}"))).await;
    }
    session
}

#[tokio::test(start_paused = true)]
async fn zones_are_read_in_their_order_page_by_page() {
    let world = World::new().await;
    let session = with_side(&world).await;
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
}

#[tokio::test(start_paused = true)]
async fn a_window_is_changed_between_turns() {
    let world = World::new().await;
    let session = with_side(&world).await;
    let set = |window: Option<u32>, expected_version| pb::SetWindowRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: "side".to_owned(),
        expected_version,
        window: window.map(|messages| wire::Window { messages }),
    };
    let in_window = pb::ListMessagesRequest {
        session: session.clone(),
        context: "side".to_owned(),
        in_window: true,
        ..pb::ListMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    for (window, expected_version, seen) in [
        (Some(1), Some(6), 1),
        (Some(9), None, 5),
        (None, Some(8), 5),
    ] {
        let answer = world
            .until(contexts.set_window(set(window, expected_version)))
            .await;
        answer.expect("an answer");
        assert_eq!(list(&world, in_window.clone()).await.len(), seen);
    }
    let nothing = world.until(contexts.set_window(set(Some(0), None))).await;
    let error = RpcError::from_status(&nothing.expect_err("refused"));
    assert_eq!(error.violations()[0].field, "window.messages", "{error}");
    let late = world
        .until(contexts.set_window(set(Some(2), Some(5))))
        .await;
    let error = RpcError::from_status(&late.expect_err("refused"));
    assert_eq!(error.reason_name(), "VERSION_MISMATCH", "{error}");
}

#[tokio::test(start_paused = true)]
async fn messages_are_found_and_counted_over_all_zones() {
    let world = World::new().await;
    let session = with_side(&world).await;
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
}

#[tokio::test(start_paused = true)]
async fn contexts_are_listed_by_name() {
    let world = World::new().await;
    let session = with_side(&world).await;
    let mut contexts = world.contexts.clone();
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
async fn the_token_of_a_page_is_of_one_list() {
    let world = World::new().await;
    let session = session(&world).await;
    let other = super::session(&world).await;
    for (session, context) in [(&session, "main"), (&session, "side"), (&other, "main")] {
        if context == "side" {
            create(&world, session, named(context)).await;
        }
        for text in ["m0", "m1", "m2"] {
            append(&world, session, context, user(text)).await;
        }
    }
    let request = pb::ListMessagesRequest {
        session: session.clone(),
        context: "main".to_owned(),
        page_size: 1,
        ..pb::ListMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let first = contexts.list_messages(request.clone()).await;
    let page_token = first.expect("a page").into_inner().next_page_token;
    let request = pb::ListMessagesRequest {
        page_token: page_token.clone(),
        ..request
    };
    let second = contexts.list_messages(request.clone()).await;
    assert_eq!(second.expect("a page").into_inner().messages[0].index, 1);
    let side = pb::ListMessagesRequest {
        context: "side".to_owned(),
        ..request.clone()
    };
    let zone = pb::ListMessagesRequest {
        zone: pb::Zone::Incremental.into(),
        ..request.clone()
    };
    let other = pb::ListMessagesRequest {
        session: other,
        ..request.clone()
    };
    let find = pb::FindMessagesRequest {
        session: session.clone(),
        context: "main".to_owned(),
        role: wire::Role::User.into(),
        page_token,
        ..pb::FindMessagesRequest::default()
    };
    let found = contexts.find_messages(find).await.map(drop);
    let mut refused = vec![found.expect_err("it is of a list")];
    for request in [side, zone, other] {
        let listed = contexts.list_messages(request).await.map(drop);
        refused.push(listed.expect_err("it is of another list"));
    }
    for refused in refused {
        let error = RpcError::from_status(&refused);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("page_token"), "{error}");
    }
}

fn named(name: &str) -> wire::CreateContext {
    wire::CreateContext {
        name: name.to_owned(),
        ..wire::CreateContext::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_page_ends_with_its_context() {
    let world = World::new().await;
    let session = session(&world).await;
    let fill = async |texts: [&str; 3]| {
        create(&world, &session, named("side")).await;
        for text in texts {
            append(&world, &session, "side", user(text)).await;
        }
    };
    fill(["a0", "a1", "a2"]).await;
    let mut contexts = world.contexts.clone();
    let request = pb::ListMessagesRequest {
        session: session.clone(),
        context: "side".to_owned(),
        page_size: 1,
        ..pb::ListMessagesRequest::default()
    };
    let first = contexts.list_messages(request.clone()).await;
    let page_token = first.expect("a page").into_inner().next_page_token;
    let destroy = pb::DestroyContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        context: Some(wire::DestroyContext {
            context: "side".to_owned(),
            ..wire::DestroyContext::default()
        }),
    };
    let destroyed = world.until(contexts.destroy_context(destroy)).await;
    destroyed.expect("it is destroyed");
    fill(["b0", "b1", "b2"]).await;
    let request = pb::ListMessagesRequest {
        page_token,
        ..request
    };
    let refused = contexts.list_messages(request).await.expect_err("stale");
    let error = RpcError::from_status(&refused);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
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
    // An assistant that says nothing has no part.
    let silent = r#"{"role":"ROLE_ASSISTANT"}"#;
    let lines = format!("{}\n\n{silent}\n{}\n", line("a"), line("b"));
    let mut contexts = world.contexts.clone();
    let bad = import(&format!("{lines}no\n"));
    let refused = world
        .until(contexts.import_context(bad))
        .await
        .expect_err("it is bad");
    let error = RpcError::from_status(&refused);
    assert_eq!(error.reason_name(), "BAD_LINE");
    assert_eq!(error.metadata("line"), Some("5"));
    let message = error.message();
    assert!(message.starts_with("jsonl line 5: "), "{error}");
    assert!(
        message.ends_with("at column 2"),
        "one number of a line: {error}"
    );
    let mut watched = watch(&world, &session, "", 0).await;
    assert_eq!(next(&world, &mut watched).await.notices, []);
    let imported = world.until(contexts.import_context(import(&lines))).await;
    let imported = imported.expect("an answer").into_inner();
    assert_eq!(
        (imported.messages, imported.version, imported.dropped_parts),
        (3, 1, 0)
    );
    assert_eq!(appended(&next(&world, &mut watched).await), ["a", "", "b"]);
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
    let wanted = [line("a"), silent.to_owned(), line("b"), line(&large)];
    let wanted = format!("{}\n", wanted.join("\n")).replace(' ', "");
    assert_eq!(jsonl.replace(' ', "").len(), wanted.len());
    assert_eq!(jsonl.replace(' ', ""), wanted);
}
