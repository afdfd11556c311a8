//! Links where the output folder should be: what is behind them is neither read nor written.

use crate::escapes::{SECRET, refused, snapshot};
use crate::support::World;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

/// A world whose output folder is `output` below the world's folder, with a canary in the workspace's
/// `.git` and beside the workspace.
fn with_output(output: &str) -> World {
    let world = World::with(|config, _| {
        config.output = config.workspace.parent().unwrap().join(output);
    });
    world.put(".git/config", SECRET);
    fs::create_dir(world.path(".git/hooks")).unwrap();
    fs::create_dir_all(world.folder.path().join("vault/cairn-out")).unwrap();
    for folder in ["vault", "vault/cairn-out"] {
        fs::write(world.folder.path().join(folder).join("config"), SECRET).unwrap();
    }
    world
}

#[tokio::test]
async fn an_output_folder_behind_a_link_that_is_made_later_opens_nothing() {
    for (output, link, target) in [
        ("ws/cairn-out", "ws/cairn-out", ".git"),
        ("ws/cairn-out", "ws/cairn-out", "../vault"),
        ("ws/cairn-out", "ws/cairn-out", "gone"),
        ("ws/built/cairn-out", "ws/built", "../vault"),
        ("ws/built/new", "ws/built", "../vault"),
    ] {
        let world = with_output(output);
        let link = world.folder.path().join(link);
        symlink(target, &link).unwrap();
        let before = snapshot(world.folder.path());
        for (tool, arguments) in [
            ("read_file", json!({"path": "cairn-out/config"})),
            ("list_files", json!({"path": "cairn-out"})),
            ("search_files", json!({"path": "cairn-out", "pattern": "."})),
            (
                "write_file",
                json!({"path": "cairn-out/hooks/x", "content": "x"}),
            ),
            (
                "write_file",
                json!({"path": "cairn-out/config", "content": "x"}),
            ),
        ] {
            let text = refused(&world, tool, arguments).await;
            let named = format!("Denied: '{}' is a symbolic link", link.display());
            assert!(text.starts_with(&named), "{output} {target} {tool}: {text}");
            assert!(text.contains("workspace.output"), "{text}");
        }
        assert_eq!(snapshot(world.folder.path()), before, "{output} {target}");
        // A folder in the link's place is taken as it is.
        fs::remove_file(&link).unwrap();
        let arguments = json!({"path": "cairn-out/a/b", "content": "x"});
        world.text("write_file", arguments).await;
        let written = world.folder.path().join(output).join("a/b");
        assert_eq!(fs::read_to_string(written).unwrap(), "x");
    }
}
