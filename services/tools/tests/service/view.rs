//! What the file tools do not show, whatever they are asked for.

use crate::support::World;
use cairn_tools::{BuildError, Config, Deps};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Is in every file that is not to be shown, and in no other.
const CANARY: &str = "canary-7f3a";

/// A workspace with files that are shown, and with files that are not.
fn secretive(change: impl FnOnce(&mut Config, &mut Deps)) -> World {
    let world = World::with(|config, deps| {
        let top = config.workspace.clone();
        config.private = vec![top.join("data"), top.join("conf/live.toml")];
        change(config, deps);
    });
    world.put(".gitignore", "*.key\n/build/\n");
    world.put("docs/.gitignore", "private.md\n");
    world.put(".git/info/exclude", "mine.txt\n");
    for path in ["readme.md", "docs/a.md", "docs/deep/b.md", "build.md"] {
        world.put(path, "shown");
    }
    for path in [
        ".env",
        ".git/config",
        ".ssh/id",
        "docs/.hidden/x",
        "top.key",
        "docs/deep/low.key",
        "build/out",
        "docs/private.md",
        "docs/mine.txt",
        "cairn.toml",
        "docs/Cairn.TOML",
        "conf/live.toml",
        "data/cairn.db",
        "data/archive/s.jsonl",
    ] {
        world.put(path, CANARY);
    }
    put_links(&world);
    world
}

fn put_links(world: &World) {
    let outside = world.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), CANARY).unwrap();
    for (target, link) in [
        (Path::new(".env"), "env-link"),
        (Path::new("cairn.toml"), "docs/../settings-link"),
        (Path::new("env-link"), "link-link"),
        (Path::new(".ssh"), "ssh-link"),
        (Path::new("docs"), "docs-link"),
        (Path::new("../readme.md"), "docs/readme-link"),
        (&outside, "outside-link"),
        (&outside.join("x"), "outside-file"),
        (&world.path("data"), "data-link"),
    ] {
        symlink(target, world.path(link)).unwrap();
    }
    fs::hard_link(world.path("conf/live.toml"), world.path("another-name")).unwrap();
}

/// Names of what is not shown, spelt in many ways, each with a part of the error.
const REFUSED: &[(&str, &str)] = &[
    (".env", "is hidden"),
    ("./.env", "is hidden"),
    (".//.env", "is hidden"),
    (".env/", "is hidden"),
    ("docs/../.env", "is hidden"),
    ("docs/deep/../../.env", "is hidden"),
    (".git/../.env", "is hidden"),
    (".ssh/../readme.md", "is hidden"),
    (".absent", "is hidden"),
    ("\"\\x2eenv\"", "is hidden"),
    ("\"\\u{2e}env\"", "is hidden"),
    ("\".env\"", "is hidden"),
    (".git", "is hidden"),
    (".git/", "is hidden"),
    (".git/config", "is hidden"),
    (".git/info/exclude", "is hidden"),
    (".gitignore", "is hidden"),
    (".ssh/id", "is hidden"),
    ("docs/.hidden", "is hidden"),
    ("docs/.hidden/x", "is hidden"),
    ("top.key", "is ignored by git"),
    ("./top.key", "is ignored by git"),
    ("docs/deep/low.key", "is ignored by git"),
    ("docs/deep/absent.key", "is ignored by git"),
    ("build", "is ignored by git"),
    ("build/", "is ignored by git"),
    ("build/out", "is ignored by git"),
    ("docs/../build/out", "is ignored by git"),
    ("docs/private.md", "is ignored by git"),
    ("docs/deep/../private.md", "is ignored by git"),
    ("docs/mine.txt", "is ignored by git"),
    ("cairn.toml", "may hold keys"),
    ("\"cairn.tom\\x6c\"", "may hold keys"),
    ("docs/Cairn.TOML", "may hold keys"),
    ("conf/live.toml", "belongs to Cairn itself"),
    ("another-name", "belongs to Cairn itself"),
    ("data", "belongs to Cairn itself"),
    ("data/", "belongs to Cairn itself"),
    ("data/cairn.db", "belongs to Cairn itself"),
    ("data/archive/s.jsonl", "belongs to Cairn itself"),
    ("env-link", "is a link"),
    ("settings-link", "is a link"),
    ("link-link", "is a link"),
    ("ssh-link", "is a link"),
    ("ssh-link/id", "leads through one"),
    ("docs-link", "is a link"),
    ("docs-link/a.md", "leads through one"),
    ("docs-link/../readme.md", "leads through one"),
    ("docs/readme-link", "is a link"),
    ("outside-link/x", "leads through one"),
    ("outside-file", "is a link"),
    ("data-link/cairn.db", "leads through one"),
];

/// What each of the three reading tools is asked about a path.
fn asked(path: &str) -> [(&'static str, Value); 3] {
    [
        ("read_file", json!({"path": path})),
        ("list_files", json!({"path": path})),
        ("search_files", json!({"path": path, "pattern": "."})),
    ]
}

#[tokio::test]
async fn a_name_shows_nothing_that_a_listing_leaves_out() {
    let world = secretive(|_, _| {});
    for (path, words) in REFUSED {
        for (tool, arguments) in asked(path) {
            let error = world.error(tool, arguments).await;
            let text = error.to_text();
            assert!(text.starts_with("Denied: "), "{tool} {path}: {text}");
            assert!(text.contains(words), "{tool} {path}: {text}");
            assert!(text.contains("workspace.show"), "{tool} {path}: {text}");
            assert!(!text.contains(CANARY), "{tool} {path}: {text}");
        }
        let arguments = json!({"path": path, "old": CANARY, "new": "x"});
        let error = world.error("edit_file", arguments).await;
        assert!(!error.to_text().contains(CANARY), "{path}: {error}");
        let reason = match path.ends_with('/') {
            true => "InvalidArguments",
            false => "Denied",
        };
        assert_eq!(error.reason(), reason, "{path}: {error}");
    }
    let before = fs::read_to_string(world.path(".env")).unwrap();
    assert_eq!(before, CANARY);
}

/// The owner of a call makes sure that a model has read what it replaces.
#[tokio::test]
async fn hidden_files_can_be_written_and_those_of_cairn_cannot() {
    let world = secretive(|config, _| config.private.push(config.workspace.join("*.token")));
    for (path, words) in [
        ("conf/live.toml", "belongs to Cairn itself"),
        ("CONF/live.toml", "belongs to Cairn itself"),
        ("another-name", "belongs to Cairn itself"),
        ("data/cairn.db", "belongs to Cairn itself"),
        ("data/cairn.db-wal", "belongs to Cairn itself"),
        ("7878.token", "belongs to Cairn itself"),
        ("env-link", "is a link"),
        ("docs-link/a.md", "leads through one"),
        ("outside-link/x", "leads through one"),
        ("data-link/cairn.db", "leads through one"),
    ] {
        let arguments = json!({"path": path, "content": "x"});
        let error = world.error("write_file", arguments).await;
        assert_eq!(error.reason(), "Denied", "{path}: {error}");
        assert!(error.message().contains(words), "{path}: {error}");
    }
    for path in [".github/workflows/ci.yml", ".gitignore", "build/new"] {
        let arguments = json!({"path": path, "content": "x"});
        world.text("write_file", arguments).await;
        assert_eq!(fs::read_to_string(world.path(path)).unwrap(), "x");
    }
    assert_eq!(
        fs::read_to_string(world.path("data/cairn.db")).unwrap(),
        CANARY
    );
}

#[tokio::test]
async fn walks_meet_nothing_that_is_not_shown() {
    let world = secretive(|_, _| {});
    let all = world.text("list_files", json!({})).await;
    let paths: Vec<&str> = all
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(
        paths,
        ["build.md", "docs/a.md", "docs/deep/b.md", "readme.md"]
    );
    for arguments in [
        json!({"pattern": CANARY}),
        json!({"pattern": CANARY, "path": "docs"}),
        json!({"pattern": CANARY, "path": "conf"}),
        json!({"pattern": "7f3a$", "regex": true, "path": "docs/.."}),
    ] {
        let text = world.text("search_files", arguments.clone()).await;
        assert!(text.contains("total: 0 matching lines"), "{text}");
        assert!(!text.contains(CANARY), "{arguments}: {text}");
    }
}

/// The names of such files are not known in advance: a file may appear after the service began.
#[tokio::test]
async fn a_file_that_matches_a_private_pattern_is_not_shown() {
    let show = vec!["/**/*.token".to_owned()];
    let world = secretive(|config, _| {
        config.private.push(config.workspace.join("*.token"));
        config.show = show;
    });
    world.put("7878.token", CANARY);
    fs::hard_link(world.path("7878.token"), world.path("third-name")).unwrap();
    for path in [
        "7878.token",
        "./7878.token",
        "docs/../7878.token",
        "third-name",
    ] {
        let error = world.error("read_file", json!({"path": path})).await;
        assert!(
            error.message().contains("belongs to Cairn itself"),
            "{path}: {error}"
        );
    }
    let found = world.text("search_files", json!({"pattern": CANARY})).await;
    assert!(found.contains("total: 0 matching lines"), "{found}");
    // The pattern is for one folder.
    world.put("docs/a.token", "shown");
    world
        .text("read_file", json!({"path": "docs/a.token"}))
        .await;
}

#[tokio::test]
async fn the_output_folder_is_shown_whatever_git_says_about_it() {
    let world = World::with(|config, _| config.output = config.workspace.join("cairn-out"));
    world.put(".gitignore", "cairn-out/\n*.log\n");
    for path in ["cairn-out/.notes", "cairn-out/run.log", "cairn-out/a/b.md"] {
        let arguments = json!({"path": path, "content": "mine\n"});
        world.text("write_file", arguments).await;
        let text = world.text("read_file", json!({"path": path})).await;
        assert!(text.ends_with("1\tmine"), "{text}");
    }
    let found = json!({"path": "cairn-out", "pattern": "mine"});
    let found = world.text("search_files", found).await;
    assert!(found.contains("total: 2 matching lines"), "{found}");
    // It has one name.
    world.put("docs/a.md", "x");
    let arguments = json!({"path": "docs/../cairn-out/run.log"});
    let error = world.error("read_file", arguments).await;
    assert!(
        error.message().contains("begins with cairn-out/"),
        "{error}"
    );
}

#[tokio::test]
async fn the_operator_opens_paths() {
    let show = [
        ".env",
        ".github/",
        "!.github/secrets",
        "/build/doc/*.html",
        "docs/private.md",
        "/cairn.toml",
        "data",
        "env-link",
    ];
    let world = secretive(|config, _| config.show = show.map(str::to_owned).to_vec());
    world.put(".github/workflows/ci.yml", "jobs");
    world.put(".github/secrets/key", CANARY);
    world.put("build/doc/index.html", "built");
    for path in [
        ".env",
        ".github/workflows/ci.yml",
        "build/doc/index.html",
        "docs/private.md",
        "cairn.toml",
    ] {
        let text = world.text("read_file", json!({"path": path})).await;
        assert!(text.contains("lines 1-1 of 1"), "{path}: {text}");
        let listed = world.text("list_files", json!({})).await;
        assert!(listed.contains(&format!("{path}\t")), "{path}: {listed}");
    }
    for (path, words) in [
        (".github/secrets/key", "is hidden"),
        ("build/out", "is ignored by git"),
        (".git/config", "is hidden"),
        ("docs/Cairn.TOML", "may hold keys"),
        ("data/cairn.db", "belongs to Cairn itself"),
        ("another-name", "belongs to Cairn itself"),
        ("env-link", "is a link"),
    ] {
        let error = world.error("read_file", json!({"path": path})).await;
        assert!(error.message().contains(words), "{path}: {error}");
    }
    // A folder that is only passed through shows what was opened in it.
    let built = world.text("list_files", json!({"path": "build"})).await;
    assert!(
        built.starts_with("build/doc/index.html\t5\t1\ttext\ntotal: 1 file"),
        "{built}"
    );
}

#[tokio::test]
async fn patterns_that_name_nothing_are_refused() {
    let faults = Config {
        show: vec![".env".to_owned(), "a{".to_owned()],
        ..Config::default()
    }
    .validate()
    .unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].field, "show[1]");
}

#[tokio::test]
async fn an_output_folder_that_holds_private_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data/store");
    let config = Config {
        workspace: folder.path().to_owned(),
        output: folder.path().join("data"),
        private: vec![store],
        ..Config::default()
    };
    let Err(BuildError::Config(faults)) = cairn_tools::check(&config, &[]) else {
        panic!("it is accepted");
    };
    assert_eq!(faults[0].field, "output");
    assert!(faults[0].problem.contains("holds"), "{faults:?}");
}
