//! Valid requests of the service for contexts.

use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use prost::Message;

/// As [`super::valid::public`], for the session's context `main`, which has messages.
pub(crate) fn contexts(method: &str, n: usize, session: &str) -> Vec<Vec<u8>> {
    let request_id = format!("{method}-{n}");
    let bytes = match method {
        "SetMode" => some(&pb::SetModeRequest {
            session: session.to_owned(),
            request_id,
            mode: wire::Mode::Ask.into(),
        }),
        "CreateContext" | "SwitchContext" | "SwitchAgent" | "DestroyContext" | "BridgeContext"
        | "CompactContext" => of_whole(method, n, session.to_owned(), request_id),
        "ListContexts" | "GetMessage" | "ListMessages" | "CountMessages" | "FindMessages"
        | "EstimateTokens" | "ExportContext" | "WatchContext" => read(method, session.to_owned()),
        _ => change(method, session.to_owned(), request_id),
    };
    bytes.into_iter().collect()
}

fn main() -> String {
    "main".to_owned()
}

fn message() -> wire::Message {
    wire::Message {
        role: wire::Role::User.into(),
        parts: vec![wire::part::Part::Text("hello".to_owned()).into()],
    }
}

fn some(message: &impl Message) -> Option<Vec<u8>> {
    Some(message.encode_to_vec())
}

fn of_whole(method: &str, n: usize, session: String, request_id: String) -> Option<Vec<u8>> {
    let pairs = || [("key".to_owned(), "value".to_owned())].into();
    match method {
        "CreateContext" => some(&pb::CreateContextRequest {
            session,
            request_id,
            context: Some(wire::CreateContext {
                name: format!("side-{n}"),
                system_prompt: "Be brief.".to_owned(),
                immutable: vec![message()],
                window: Some(wire::Window { messages: 2 }),
                when_full: wire::WhenFull::Refuse.into(),
                agent: String::new(),
            }),
        }),
        // The context was cleared before, so no run begins.
        "CompactContext" => some(&pb::CompactContextRequest {
            session,
            request_id,
            compact: Some(wire::CompactContext {
                context: main(),
                expected_version: None,
                keep: 2,
                prompt: Some("Sum up.".to_owned()),
                keep_in_mind: "names".to_owned(),
                model: "offline".to_owned(),
                trace_parent: String::new(),
            }),
        }),
        "SwitchAgent" => some(&pb::SwitchAgentRequest {
            session,
            request_id,
            context: main(),
            agent: "default".to_owned(),
        }),
        "SwitchContext" => some(&pb::SwitchContextRequest {
            session,
            request_id,
            context: main(),
        }),
        "DestroyContext" => some(&pb::DestroyContextRequest {
            session,
            request_id,
            context: Some(wire::DestroyContext {
                context: format!("gone-{n}"),
                conclusions: pairs(),
                ask_model: false,
            }),
        }),
        _ => some(&pb::BridgeContextRequest {
            session,
            request_id,
            bridge: Some(wire::BridgeContext {
                from: main(),
                to: main(),
                values: pairs(),
            }),
        }),
    }
}

fn change(method: &str, session: String, request_id: String) -> Option<Vec<u8>> {
    let (context, expected_version) = (main(), None);
    macro_rules! change {
        ($request:ident { $($field:ident: $value:expr),* }) => {
            some(&pb::$request { session, request_id, context, expected_version, $($field: $value),* })
        };
    }
    let message = || Some(message());
    match method {
        "AppendMessage" => change!(AppendMessageRequest { message: message() }),
        "ExtendMessages" => change!(ExtendMessagesRequest {
            messages: message().into_iter().collect()
        }),
        "UpdateMessage" => change!(UpdateMessageRequest {
            index: 0,
            message: message()
        }),
        "InsertMessage" => change!(InsertMessageRequest {
            index: 0,
            message: message()
        }),
        "RemoveMessage" => change!(RemoveMessageRequest { index: 0, count: 1 }),
        "PopMessage" => change!(PopMessageRequest {}),
        "RetainMessages" => change!(RetainMessagesRequest {
            role: wire::Role::User.into()
        }),
        "ClearMessages" => change!(ClearMessagesRequest {}),
        "SetWindow" => change!(SetWindowRequest {
            window: Some(wire::Window { messages: 2 })
        }),
        "UpdateContext" => change!(UpdateContextRequest {
            window: Some(wire::WindowChange {
                window: Some(wire::Window { messages: 2 })
            }),
            when_full: Some(wire::WhenFullChange {
                when_full: wire::WhenFull::Compact.into()
            })
        }),
        "ImportContext" => change!(ImportContextRequest {
            jsonl: r#"{"role":"ROLE_USER","parts":[{"text":"hello"}]}"#.to_owned(),
            preserve_reasoning: true
        }),
        _ => None,
    }
}

fn read(method: &str, session: String) -> Option<Vec<u8>> {
    let context = main();
    match method {
        "ListContexts" => some(&pb::ListContextsRequest { session }),
        "GetMessage" => some(&pb::GetMessageRequest {
            session,
            context,
            index: 0,
        }),
        "ListMessages" => some(&pb::ListMessagesRequest {
            session,
            context,
            zone: pb::Zone::Incremental.into(),
            in_window: true,
            page_size: 2,
            page_token: String::new(),
        }),
        "FindMessages" => some(&pb::FindMessagesRequest {
            session,
            context,
            role: wire::Role::User.into(),
            page_size: 2,
            page_token: String::new(),
        }),
        "WatchContext" => some(&pb::WatchContextRequest {
            session,
            context,
            after_seq: 1,
        }),
        // The others name a session and a context and nothing else.
        _ => some(&pb::CountMessagesRequest { session, context }),
    }
}
