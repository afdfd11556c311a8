//! Programs of the settings.

use crate::world::{CANARY, World};
use cairn_tools::{CommandConfig, Confine, Effect, ToolError};
use serde_json::json;

fn script(name: &str, confine: Confine, text: &str) -> CommandConfig {
    CommandConfig {
        name: name.to_owned(),
        description: "test".to_owned(),
        argv: ["sh", "-c", text].map(str::to_owned).to_vec(),
        effect: Effect::Effectful,
        parameters: json!({"type": "object"}),
        time_limit_ms: 2_000,
        output_bytes: 4096,
        env: Vec::new(),
        confine,
    }
}

/// Unless the settings say otherwise; and what they change is named.
pub(crate) fn are_confined() {
    let read = "cat ../outside";
    let commands = [
        script("reads", Confine::Workspace, read),
        script("unconfined", Confine::None, read),
        script("echoes", Confine::Workspace, "cat; echo x >.mcp.json"),
        script("fails", Confine::Workspace, "echo x >>cairn.toml; exit 3"),
        script("lasts", Confine::Workspace, "echo x >AGENTS.md; sleep 60"),
    ];
    let mut world = World::with(|config| config.commands = commands.to_vec());
    let call = |world: &World, name: &str| world.call_tool(name, &json!({"a": 1}));
    let refused = call(&world, "reads").unwrap_err();
    assert!(refused.message().contains("Permission denied"), "{refused}");
    assert!(call(&world, "unconfined").unwrap().contains(CANARY));
    let named = |file| format!("this command changed {file}");
    let said = call(&world, "echoes").unwrap();
    assert!(said.starts_with("{\"a\":1}\n"), "{said}");
    assert!(said.contains(&named(".mcp.json")), "{said}");
    let failed = call(&world, "fails").unwrap_err();
    assert!(failed.message().contains(&named("cairn.toml")), "{failed}");
    let late = call(&world, "lasts").unwrap_err();
    assert_eq!(late.reason(), "Timeout");
    assert!(late.message().contains(&named("AGENTS.md")), "{late}");
    assert!(world.damage().is_empty());
    let off = World::with(|config| {
        config.commands = commands.to_vec();
        config.store_paths.push(config.workspace.clone());
    });
    let Err(ToolError::Denied(why)) = call(&off, "echoes") else {
        panic!("it runs beside a store");
    };
    assert!(why.contains("confine = \"none\""), "{why}");
    assert!(call(&off, "unconfined").is_ok());
}
