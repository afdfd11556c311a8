//! The further calls that an approval can cover, in words.

use cairn_proto::event::GrantScope;
use cairn_proto::event::grant_scope::Kind;
use cairn_proto::orchestrator::Pending;
use cairn_rpc::text::{clip, escape};

/// The folder of the workspace, or the one that a program reads paths from.
const HERE: &str = ".";
/// Stands between the name of a server and that of its tool.
const OF_SERVER: &str = "__";
/// Most bytes of a name.
const NAME: usize = 400;

/// One of the further ways to approve a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Further {
    /// Names it to the services.
    pub id: String,
    /// What it covers, escaped.
    pub covers: String,
}

/// The ways to approve a call that cover further calls, from the narrowest to the widest. What cannot be said, such as
/// a kind of a newer version, is not offered.
pub fn further(pending: &Pending) -> Vec<Further> {
    let scopes = pending.scopes.iter();
    let further = scopes.filter_map(|offered| {
        let covers = words(&pending.tool, offered.scope.as_ref()?)?;
        Some(Further {
            id: offered.id.clone(),
            covers,
        })
    });
    further.collect()
}

/// The calls that an approval in force covers, escaped.
pub fn granted_words(tool: &str, scope: &GrantScope) -> String {
    let unknown = || "calls that only a newer version knows".to_owned();
    words(tool, scope).unwrap_or_else(unknown)
}

/// The calls that an approval of a call of `tool` covers, escaped. None for a kind that is not known.
fn words(tool: &str, scope: &GrantScope) -> Option<String> {
    let tool = clip(tool, NAME);
    let words = match scope.kind.as_ref()? {
        Kind::Tool(_) => format!("every call of {tool}"),
        Kind::Folder(it) => {
            let place = place(&tool, &it.folder, "below");
            format!("every call of {tool} {place}")
        }
        Kind::Prefix(it) => {
            let words = it.words.join(" ");
            // Of no folder below it.
            let place = match it.folder.as_str() {
                "" | HERE => "in the top folder of the workspace".to_owned(),
                folder => place("", folder, "in"),
            };
            format!("commands that begin with `{}`, {place}", escape(&words))
        }
        Kind::Server(it) => format!("every tool of server {}", clip(&it.name, NAME)),
    };
    Some(words)
}

/// A folder after a word that says how calls belong to it. A server reads paths from a folder of its own.
fn place(tool: &str, folder: &str, how: &str) -> String {
    match folder {
        "" | HERE if tool.contains(OF_SERVER) => "in the folder of its server".to_owned(),
        "" | HERE => "in the workspace".to_owned(),
        folder => format!("{how} {}/", escape(folder.trim_end_matches('/'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::grant_scope::{Folder, Prefix, Server, Tool};
    use cairn_proto::orchestrator::ApprovalScope;

    fn of(kind: Kind) -> GrantScope {
        GrantScope { kind: Some(kind) }
    }

    fn folder(folder: &str) -> GrantScope {
        let folder = folder.to_owned();
        of(Kind::Folder(Folder { folder }))
    }

    fn prefix(folder: &str) -> GrantScope {
        let words = ["cargo", "test"].map(str::to_owned).to_vec();
        let folder = folder.to_owned();
        of(Kind::Prefix(Prefix { words, folder }))
    }

    #[test]
    fn each_kind_has_words_that_say_all_of_it() {
        let server = Server {
            name: "git\u{1b}hub".to_owned(),
            digest: "d".to_owned(),
        };
        let cases = [
            (of(Kind::Tool(Tool {})), "every call of edit_file"),
            (folder("src"), "every call of edit_file below src/"),
            (folder("."), "every call of edit_file in the workspace"),
            (folder("/etc"), "every call of edit_file below /etc/"),
            (
                prefix("."),
                "commands that begin with `cargo test`, in the top folder of the workspace",
            ),
            (
                prefix("a/b"),
                "commands that begin with `cargo test`, in a/b/",
            ),
            (
                of(Kind::Server(server)),
                "every tool of server git\\u{1b}hub",
            ),
        ];
        for (scope, expected) in cases {
            assert_eq!(words("edit_file", &scope).as_deref(), Some(expected));
        }
        let of_server = words("fs__write", &folder("."));
        let expected = "every call of fs__write in the folder of its server";
        assert_eq!(of_server.as_deref(), Some(expected));
    }

    #[test]
    fn a_kind_of_a_newer_version_is_not_offered() {
        let scopes = [
            None,
            Some(GrantScope::default()),
            Some(of(Kind::Tool(Tool {}))),
        ];
        let scopes = scopes.map(|scope| ApprovalScope {
            id: "it".to_owned(),
            scope,
        });
        let pending = Pending {
            tool: "record".to_owned(),
            scopes: scopes.to_vec(),
            ..Pending::default()
        };
        let further = further(&pending);
        assert_eq!(further.len(), 1);
        assert_eq!(further[0].covers, "every call of record");
    }
}
