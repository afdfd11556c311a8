//! The service over a local link.

use crate::support::{Custom, NOW, World, counting};
use async_trait::async_trait;
use cairn_engine::limits::MAX_RESULT_PART;
use cairn_engine::rules::{Answer, Condition, Matcher, MatcherKind, Rule, Scope};
use cairn_proto::event::Effect as ProtoEffect;
use cairn_proto::tools::invoke_tool_response::Message;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{InvokeToolRequest, ListToolsRequest, RuleAnswer, ToolResult};
use cairn_rpc::{Exposure, Link, RpcError, ServerBuilder};
use cairn_tools::{
    Call, Capabilities, CapabilityConfig, Effect, Output, ProgressStep, Tool, ToolError, ToolSpec,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

async fn client(world: &World) -> ToolsServiceClient<Link> {
    let builder = world.tools.register(ServerBuilder::new(Exposure::Internal));
    ToolsServiceClient::new(builder.build().await.unwrap().link())
}

fn world() -> World {
    World::with(|_, deps| {
        deps.tools = vec![
            Custom::tool("effect", Effect::Effectful, |call| async move {
                Ok(Output::text(format!("{} {}", call.key, call.session)))
            }),
            Custom::tool("panics", Effect::Pure, |_| async { panic!("on purpose") }),
        ];
    })
}

/// The result of a call; it is the last message.
async fn invoke(client: &mut ToolsServiceClient<Link>, request: InvokeToolRequest) -> ToolResult {
    let mut messages = client.invoke_tool(request).await.unwrap().into_inner();
    while let Some(response) = messages.message().await.unwrap() {
        if let Some(Message::Result(result)) = response.message {
            assert!(messages.message().await.unwrap().is_none());
            return result;
        }
    }
    panic!("a call without a result");
}

fn call(name: &str, arguments: &str) -> InvokeToolRequest {
    InvokeToolRequest {
        name: name.to_owned(),
        arguments_json: arguments.to_owned(),
        call_key: "cafe".to_owned(),
        session: "s-1".to_owned(),
        not_after_unix_ms: i64::try_from(NOW).unwrap() + 3_600_000,
        ..InvokeToolRequest::default()
    }
}

#[tokio::test]
async fn the_catalogue_is_sorted_and_complete() {
    let world = world();
    let response = client(&world)
        .await
        .list_tools(ListToolsRequest::default())
        .await
        .unwrap();
    let tools = response.into_inner().tools;
    let seen: Vec<(&str, ProtoEffect)> = tools
        .iter()
        .map(|tool| (tool.name.as_str(), tool.effect()))
        .collect();
    assert_eq!(
        seen,
        [
            ("edit_file", ProtoEffect::Idempotent),
            ("effect", ProtoEffect::Effectful),
            ("list_files", ProtoEffect::Pure),
            ("panics", ProtoEffect::Pure),
            ("read_file", ProtoEffect::Pure),
            ("search_files", ProtoEffect::Pure),
            ("write_file", ProtoEffect::Idempotent),
        ]
    );
    for tool in &tools {
        let schema: serde_json::Value = serde_json::from_str(&tool.parameters_json).unwrap();
        assert_eq!(schema["type"], "object");
        assert!(!tool.description.is_empty() && tool.time_limit_ms > 0 && tool.in_process);
        let writes = ["edit_file", "write_file"].contains(&tool.name.as_str());
        assert_eq!(tool.previews, writes, "{}", tool.name);
    }
}

#[tokio::test]
async fn the_list_has_the_capabilities_and_its_digest_covers_them() {
    let listed = async |entries: Vec<(String, CapabilityConfig)>| {
        let world = World::with(|config, _| config.capabilities = Capabilities::with(entries));
        let mut client = client(&world).await;
        let listed = client.list_tools(ListToolsRequest::default()).await;
        listed.unwrap().into_inner()
    };
    let default = listed(Vec::new()).await;
    let names = default.capabilities.iter().map(|row| row.name.as_str());
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "web_search",
            "file_ops",
            "code_generation",
            "shell_exec",
            "report_generation"
        ]
    );
    assert_eq!(
        default.capabilities[1].tools,
        ["read_file", "write_file"].map(str::to_owned)
    );
    assert!(default.capabilities.iter().all(|row| row.level == 1));
    assert_eq!(default.digest, listed(Vec::new()).await.digest);

    let of = |level| CapabilityConfig {
        level,
        ..CapabilityConfig::of(vec!["effect".to_owned()])
    };
    let own = |level| {
        let removed = CapabilityConfig::of(Vec::new());
        let entries = [("gpu", of(level)), ("shell_exec", removed)];
        entries.map(|(name, it)| (name.to_owned(), it)).to_vec()
    };
    let changed = listed(own(5)).await;
    assert_eq!(changed.capabilities.len(), 5);
    let last = changed.capabilities.last().unwrap();
    assert_eq!((last.name.as_str(), last.level), ("gpu", 5));
    assert_ne!(changed.digest, default.digest);
    assert_ne!(listed(own(6)).await.digest, changed.digest);
}

#[tokio::test]
async fn a_call_and_its_result_go_through() {
    let world = world();
    world.put("a.md", "one\n");
    let mut client = client(&world).await;
    let response = invoke(&mut client, call("effect", "{}")).await;
    assert_eq!(response.output, "cafe s-1");
    assert!(!response.is_error && response.reason.is_empty());
    let request = call("read_file", r#"{"path": "a.md"}"#);
    let response = invoke(&mut client, request).await;
    assert_eq!(response.output, "a.md lines 1-1 of 1\n1\tone");
}

#[tokio::test]
async fn a_long_text_goes_before_its_result_in_parts() {
    let texts = [
        ("x".repeat(64 * 1024), 0),
        ("x".repeat(64 * 1024 + 1), 1),
        ("é".repeat(MAX_RESULT_PART), 2),
        (format!("x{}", "🦀".repeat(MAX_RESULT_PART)), 5),
    ];
    for (text, count) in texts {
        let output = text.clone();
        let long = Custom::of_source("test", "long", Effect::Pure, move |_| {
            let output = output.clone();
            async move { Ok(Output::text(output)) }
        });
        let world = World::with(move |_, deps| deps.tools = vec![long]);
        let mut client = client(&world).await;
        let asked = client.invoke_tool(call("long", "{}")).await.unwrap();
        let (mut messages, mut parts) = (asked.into_inner(), Vec::new());
        let result = loop {
            match messages.message().await.unwrap().unwrap().message {
                Some(Message::Part(part)) => parts.push(part),
                Some(Message::Result(result)) => break result,
                _ => {}
            }
        };
        assert!(messages.message().await.unwrap().is_none());
        assert!(parts.iter().all(|part| part.len() <= MAX_RESULT_PART));
        assert_eq!(parts.len(), count, "{} bytes", text.len());
        assert!(parts.is_empty() || result.output.is_empty());
        assert!(parts.concat() + &result.output == text);
    }
}

#[tokio::test]
async fn everything_that_goes_wrong_is_a_result() {
    let world = world();
    let mut client = client(&world).await;
    let late = InvokeToolRequest {
        not_after_unix_ms: i64::try_from(NOW).unwrap() - 1,
        ..call("effect", "{}")
    };
    let mut unset: Vec<InvokeToolRequest> = [0, -1, i64::MIN]
        .into_iter()
        .map(|not_after_unix_ms| InvokeToolRequest {
            not_after_unix_ms,
            ..call("effect", "{}")
        })
        .collect();
    unset.push(InvokeToolRequest {
        call_key: String::new(),
        ..call("effect", "{}")
    });
    let mut cases = vec![
        (InvokeToolRequest::default(), "NotFound"),
        (call("nobody", "{}"), "NotFound"),
        (call("panics", "{}"), "ExecutionFailed"),
        (call("read_file", "{\"path\": 1}"), "InvalidArguments"),
        (call("read_file", "{\"path\": \"../x\"}"), "Denied"),
        (call("read_file", &"[".repeat(300_000)), "TooLarge"),
        (late, "NotSent"),
    ];
    cases.extend(unset.into_iter().map(|request| (request, "NotSent")));
    for (request, reason) in cases {
        let response = invoke(&mut client, request).await;
        assert!(response.is_error);
        assert_eq!(response.reason, reason, "{}", response.output);
        assert!(
            response.output.starts_with(&format!("{reason}: ")),
            "{}",
            response.output
        );
    }
}

#[tokio::test]
async fn only_the_tool_that_was_judged_is_called() {
    let (pay, paid) = counting("pay", Effect::Pure);
    let digest = pay.spec().digest();
    let world = World::with(|config, deps| {
        config.ask = vec!["pay".to_owned()];
        deps.tools = vec![pay];
    });
    let mut client = client(&world).await;
    let listed = client
        .list_tools(ListToolsRequest::default())
        .await
        .unwrap();
    let listed = listed.into_inner();
    let ask = RuleAnswer::Ask;
    let asking = listed.rules.iter().filter(|rule| rule.answer() == ask);
    let asking: Vec<&str> = asking.map(|rule| rule.tool.as_str()).collect();
    assert_eq!(asking, ["pay"]);
    let shown = listed.tools.iter().find(|tool| tool.name == "pay");
    assert_eq!(shown.map(|tool| &tool.digest), Some(&digest));
    let of = |tool_digest: &str| InvokeToolRequest {
        tool_digest: tool_digest.to_owned(),
        ..call("pay", "{}")
    };
    let other = invoke(&mut client, of("another")).await;
    assert_eq!(other.reason, "NotSent");
    assert_eq!(
        other.unsent.map(|unsent| unsent.tool_digest),
        Some(digest.clone())
    );
    assert_eq!(paid.load(Ordering::SeqCst), 0, "nothing was done");
    assert!(!invoke(&mut client, of(&digest)).await.is_error);
    assert_eq!(paid.load(Ordering::SeqCst), 1);
}

/// A tool whose path is a link somewhere else.
struct Linked(ToolSpec);

#[async_trait]
impl Tool for Linked {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn links(&self, scope: &Scope) -> Vec<Condition> {
        let texts = scope.texts().map(|(text, _)| Condition {
            name: text.to_owned(),
            pattern: "secret/a".to_owned(),
        });
        texts.collect()
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        Ok(Output::text("read"))
    }
}

#[tokio::test]
async fn a_link_is_judged_by_where_it_leads() {
    let deny = Rule {
        tool: "linked".to_owned(),
        when: [("path".to_owned(), "denied/**".to_owned())].into(),
        agent: None,
        answer: Answer::Deny,
    };
    let spec = ToolSpec {
        matchers: vec![Matcher {
            name: "path".to_owned(),
            kind: MatcherKind::Path,
            argument: "path".to_owned(),
            default: None,
            folder: None,
        }],
        effect: Effect::Pure,
        ..ToolSpec::new("linked", "test", json!({"type": "object"}))
    };
    let world = World::with(|config, deps| {
        config.rules = vec![deny];
        deps.tools = vec![Arc::new(Linked(spec))];
    });
    let mut client = client(&world).await;
    let asked = call("linked", r#"{"path": "docs/a"}"#);
    let first = invoke(&mut client, asked.clone()).await;
    let resolved = first.unsent.expect("it leads elsewhere").resolved;
    let shown: Vec<_> = resolved
        .iter()
        .map(|it| (&*it.name, &*it.pattern))
        .collect();
    assert_eq!(shown, [("docs/a", "secret/a")]);
    let judged = InvokeToolRequest { resolved, ..asked };
    assert_eq!(invoke(&mut client, judged).await.output, "read");
}

#[tokio::test]
async fn progress_comes_before_the_result() {
    let world = World::with(|_, deps| {
        deps.tools = vec![Custom::tool("slow", Effect::Pure, |call| async move {
            for progress in [1.0, 2.0] {
                call.progress.report(ProgressStep {
                    progress,
                    total: 2.0,
                    message: "step".to_owned(),
                });
            }
            Ok(Output::text("done"))
        })];
    });
    let mut client = client(&world).await;
    let mut messages = client
        .invoke_tool(call("slow", "{}"))
        .await
        .unwrap()
        .into_inner();
    let mut seen = Vec::new();
    while let Some(response) = messages.message().await.unwrap() {
        seen.push(match response.message {
            Some(Message::Progress(step)) => format!("{} of {}", step.progress, step.total),
            Some(Message::Result(result)) => result.output,
            Some(Message::Part(_)) => "a part".to_owned(),
            None => "nothing".to_owned(),
        });
    }
    assert_eq!(seen, ["1 of 2", "2 of 2", "done"]);
}

#[tokio::test]
async fn a_call_that_nobody_knows_the_end_of_is_an_error() {
    let world = World::with(|_, deps| {
        deps.tools = vec![Custom::tool("lost", Effect::Effectful, |_| async {
            Err(ToolError::Unknown("its server is gone".to_owned()))
        })];
    });
    let mut client = client(&world).await;
    let mut messages = client
        .invoke_tool(call("lost", "{}"))
        .await
        .unwrap()
        .into_inner();
    let status = messages.message().await.unwrap_err();
    let error = RpcError::from_status(&status);
    assert_eq!(error.reason_name(), "CALL_LOST");
}
