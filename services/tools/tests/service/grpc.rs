//! The service over a local link.

use crate::support::{Custom, NOW, World};
use cairn_engine::key::approval_digest;
use cairn_proto::event::Effect as ProtoEffect;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{InvokeToolRequest, InvokeToolResponse, ListToolsRequest};
use cairn_rpc::{Exposure, Link, ServerBuilder};
use cairn_tools::{Effect, Output};
use serde_json::Value;

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

fn call(name: &str, arguments: &str) -> InvokeToolRequest {
    InvokeToolRequest {
        name: name.to_owned(),
        arguments_json: arguments.to_owned(),
        call_key: "cafe".to_owned(),
        session: "s-1".to_owned(),
        not_after_unix_ms: i64::try_from(NOW).unwrap() + 3_600_000,
        approval: String::new(),
    }
}

#[tokio::test]
async fn the_catalogue_is_sorted_and_complete() {
    let world = world();
    let response = client(&world)
        .await
        .list_tools(ListToolsRequest {})
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
            ("effect", ProtoEffect::Effectful),
            ("list_files", ProtoEffect::Pure),
            ("panics", ProtoEffect::Pure),
            ("read_file", ProtoEffect::Pure),
            ("search_files", ProtoEffect::Pure),
            ("write_file", ProtoEffect::Idempotent),
        ]
    );
    for tool in &tools {
        let schema: Value = serde_json::from_str(&tool.parameters_json).unwrap();
        assert_eq!(schema["type"], "object");
        assert!(!tool.description.is_empty() && tool.time_limit_ms > 0 && tool.in_process);
    }
}

#[tokio::test]
async fn a_call_and_its_result_go_through() {
    let world = world();
    world.put("a.md", "one\n");
    let mut client = client(&world).await;
    let response = client
        .invoke_tool(call("effect", "{}"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(response.output, "cafe s-1");
    assert!(!response.is_error && response.reason.is_empty());
    let request = call("read_file", r#"{"path": "a.md"}"#);
    let response = client.invoke_tool(request).await.unwrap().into_inner();
    assert_eq!(response.output, "a.md lines 1-1 of 1\n1\tone");
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
        let response: InvokeToolResponse = client.invoke_tool(request).await.unwrap().into_inner();
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
async fn a_tool_that_needs_approval_says_so_and_takes_what_was_approved_only() {
    let world = World::with(|config, deps| {
        config.ask = vec!["pay".to_owned()];
        deps.tools = vec![Custom::tool("pay", Effect::Pure, |_| async {
            Ok(Output::text("paid"))
        })];
    });
    let mut client = client(&world).await;
    let listed = client.list_tools(ListToolsRequest {}).await.unwrap();
    let listed = listed.into_inner().tools;
    let asking = listed.iter().filter(|tool| tool.needs_approval);
    let asking: Vec<&str> = asking.map(|tool| tool.name.as_str()).collect();
    assert_eq!(asking, ["pay"]);
    let approval = approval_digest("pay", "{}");
    for (arguments, approval, reason) in [
        ("{}", String::new(), "Denied"),
        ("{ }", approval.clone(), "Denied"),
        ("{}", approval, ""),
    ] {
        let request = InvokeToolRequest {
            approval,
            ..call("pay", arguments)
        };
        let response = client.invoke_tool(request).await.unwrap().into_inner();
        assert_eq!(response.reason, reason, "{}", response.output);
    }
}
