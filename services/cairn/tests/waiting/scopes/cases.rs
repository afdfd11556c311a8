//! The scopes of each kind, with five calls inside and five outside of each.

use serde_json::{Value, json};

/// A tool and its arguments.
pub(super) type Called = (&'static str, Value);

/// A scope, and calls by which it is tried.
pub(super) struct Case {
    /// What the scope covers, as a person reads it.
    pub(super) words: &'static str,
    /// Calls before, which are approved alone.
    pub(super) before: Vec<Called>,
    /// The call whose question offers the scope.
    pub(super) first: Called,
    pub(super) inside: [Called; 5],
    pub(super) outside: [Called; 5],
}

/// Two servers with the same two tools.
pub(super) const SERVERS: &str = "\n[mcp.servers.ops]\ncommand = \"sh\"\nargs = [\"server.sh\"]\nprotocol = \"2026-07-28\"\n\
    \n[mcp.servers.opsother]\ncommand = \"sh\"\nargs = [\"server.sh\"]\nprotocol = \"2026-07-28\"\n";

/// A server of the Model Context Protocol 2026-07-28 over stdio.
pub(super) const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
tool() { printf '{"name":"%s","description":"Does it.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}' "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
  *'"method":"server/discover"'*)
    answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{}}}' ;;
  *'"method":"tools/list"'*)
    answer "{\"resultType\":\"complete\",\"ttlMs\":3600000,\"cacheScope\":\"private\",\"tools\":[$(tool one),$(tool two)]}" ;;
  *'"method":"tools/call"'*)
    answer '{"resultType":"complete","content":[{"type":"text","text":"done"}]}' ;;
  *) [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not known"}}\n' "$id" ;;
  esac
done
"#;

fn write(path: &str) -> Called {
    ("write_file", json!({"path": path, "content": "1\n"}))
}

/// Each changes what the one before has left.
fn edit(path: &str, from: u32) -> Called {
    let (old, new) = (from.to_string(), (from + 1).to_string());
    ("edit_file", json!({"path": path, "old": old, "new": new}))
}

fn record(what: &str) -> Called {
    ("record", json!({"what": what}))
}

fn look(what: &str) -> Called {
    ("look", json!({"what": what}))
}

fn shell(command: &str) -> Called {
    ("shell_exec", json!({"command": command}))
}

fn shell_in(folder: &str, command: &str) -> Called {
    ("shell_exec", json!({"command": command, "cwd": folder}))
}

fn server(tool: &'static str, n: u32) -> Called {
    (tool, json!({"n": n}))
}

/// Scopes of each kind.
pub(super) fn cases() -> Vec<Case> {
    vec![
        of_tool(),
        of_folder(),
        of_workspace(),
        of_edits(),
        of_commands(),
        of_server_tool(),
        of_server(),
    ]
}

fn of_tool() -> Case {
    Case {
        words: "every call of record",
        before: Vec::new(),
        first: record("0"),
        inside: ["1", "2", "src/3", "../4", "five words of a text"].map(record),
        outside: [
            look("1"),
            look("0"),
            write("record"),
            shell("record"),
            server("ops__one", 1),
        ],
    }
}

fn of_folder() -> Case {
    Case {
        words: "every call of write_file below src/",
        before: Vec::new(),
        first: write("src/0.txt"),
        inside: [
            "src/0.txt",
            "src/2.txt",
            "src/a/3.txt",
            "src/a/b/4.txt",
            "src/5",
        ]
        .map(write),
        outside: [
            write("0.txt"),
            write("src2/2.txt"),
            write("a/src/3.txt"),
            write("docs/4.txt"),
            edit("src/0.txt", 1),
        ],
    }
}

fn of_workspace() -> Case {
    Case {
        words: "every call of write_file in the workspace",
        before: Vec::new(),
        first: write("0.txt"),
        inside: [
            "1.txt",
            "src/2.txt",
            "docs/3.txt",
            "a/b/4.txt",
            "cairn-out/5.txt",
        ]
        .map(write),
        outside: [
            // Cairn and agents read these on their own.
            write("AGENTS.md"),
            write("src/CLAUDE.md"),
            edit("0.txt", 1),
            record("4"),
            shell("touch 5.txt"),
        ],
    }
}

fn of_edits() -> Case {
    Case {
        words: "every call of edit_file below src/",
        before: vec![write("src/0.txt"), write("1.txt")],
        first: edit("src/0.txt", 1),
        inside: [2, 3, 4, 5, 6].map(|from| edit("src/0.txt", from)),
        outside: [
            edit("1.txt", 1),
            write("src/2.txt"),
            edit("1.txt", 1),
            write("src/a/4.txt"),
            edit("1.txt", 1),
        ],
    }
}

fn of_commands() -> Case {
    Case {
        words: "commands that begin with `echo hi`, in the top folder of the workspace",
        before: Vec::new(),
        first: shell("echo hi one"),
        inside: [
            "echo hi",
            "echo hi one",
            "echo  hi 'two three'",
            "echo hi \"four\" --five",
            "'echo' hi six",
        ]
        .map(shell),
        outside: [
            shell("echo ho"),
            shell("echo hi; touch other"),
            shell("echo hi > file"),
            shell("env echo hi"),
            shell_in("docs", "echo hi"),
        ],
    }
}

fn of_server_tool() -> Case {
    Case {
        words: "every call of ops__one",
        before: Vec::new(),
        first: server("ops__one", 0),
        inside: [1, 2, 3, 4, 5].map(|n| server("ops__one", n)),
        outside: [
            server("ops__two", 0),
            server("opsother__one", 0),
            server("ops__two", 1),
            server("opsother__two", 0),
            record("one"),
        ],
    }
}

fn of_server() -> Case {
    Case {
        words: "every tool of server ops",
        before: Vec::new(),
        first: server("ops__one", 0),
        inside: [
            server("ops__two", 0),
            server("ops__one", 0),
            server("ops__two", 2),
            server("ops__one", 3),
            server("ops__two", 4),
        ],
        outside: [
            server("opsother__one", 0),
            server("opsother__two", 0),
            record("ops"),
            look("ops"),
            write("ops"),
        ],
    }
}
