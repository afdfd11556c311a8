//! The values of a call that rules may name, by the schema of the arguments.

use cairn_engine::canonical::to_canonical_json;
use cairn_engine::rules::{Matcher, MatcherKind, Value, Values};
use serde_json::Value as Json;
use std::path::{Component, Path, PathBuf};

/// Arguments that are a path, or several.
const PATHS: [&str; 8] = [
    "path",
    "file",
    "filename",
    "directory",
    "dir",
    "folder",
    "source",
    "destination",
];
/// Arguments that are several paths.
const PATH_LISTS: [&str; 4] = ["paths", "files", "filenames", "directories"];
/// Ends of the names of further arguments that are paths.
const PATH_ENDS: [&str; 6] = ["_path", "Path", "_file", "File", "_dir", "Dir"];
/// Arguments that are addresses.
const ADDRESSES: [&str; 2] = ["href", "endpoint"];
/// Ends of the names of further arguments that are addresses, in lower case.
const ADDRESS_ENDS: [&str; 4] = ["url", "uri", "urls", "uris"];
/// The name in rules of every address.
const HOST: &str = "host";
/// The name in rules of lists of paths.
const PATH: &str = "path";

/// A value for each argument, so that an approval of further calls holds for the same ones. Lists of paths
/// and addresses are unclear values: rules that ask or deny hold for them, too.
/// `folder` is where the server's program runs.
pub(crate) fn matchers(schema: &Json, folder: Option<&Path>) -> Vec<Matcher> {
    let Some(Json::Object(properties)) = schema.get("properties") else {
        return Vec::new();
    };
    let of = |(name, property): (&String, &Json)| {
        let (kind, shown) = kind_of(name, property);
        let default = property.get("default").filter(|it| !it.is_null());
        // As a call that gives the same value is read. A default that is no text stands for none there.
        let default = default.and_then(|it| match kind {
            MatcherKind::Json => Some(to_canonical_json(it)),
            MatcherKind::Path | MatcherKind::Host | MatcherKind::Text => {
                it.as_str().map(str::to_owned)
            }
        });
        let folder = folder.filter(|_| kind == MatcherKind::Path);
        Matcher {
            name: shown.to_owned(),
            folder: folder.map(|folder| folder.display().to_string()),
            kind,
            argument: name.clone(),
            default,
        }
    };
    properties.iter().map(of).collect()
}

fn kind_of<'a>(name: &'a str, property: &Json) -> (MatcherKind, &'a str) {
    let lower = name.to_ascii_lowercase();
    let is_address = property.get("format").and_then(Json::as_str) == Some("uri")
        || ADDRESSES.contains(&name)
        || ADDRESS_ENDS.iter().any(|end| lower.ends_with(end));
    if is_address {
        (MatcherKind::Host, HOST)
    } else if PATH_LISTS.contains(&name) || name.ends_with("_paths") {
        (MatcherKind::Path, PATH)
    } else if PATHS.contains(&name) || PATH_ENDS.iter().any(|end| name.ends_with(end)) {
        (MatcherKind::Path, name)
    } else if may_be_text(property) {
        (MatcherKind::Text, name)
    } else {
        (MatcherKind::Json, name)
    }
}

/// Whether a schema lets text through; one that says nothing of types does.
fn may_be_text(property: &Json) -> bool {
    match property.get("type") {
        Some(Json::String(only)) => only == "string",
        Some(Json::Array(several)) => several.iter().any(|it| it == "string"),
        _ => true,
    }
}

/// The values of a call as its server gets it. Arguments that the schema does not declare are read by their
/// names, as rules are for them, too. A path of a program leads to where links on the way lead.
pub(crate) fn resolve(
    declared: &[Matcher],
    arguments: &Json,
    textual: Values,
    folder: impl FnOnce() -> Option<PathBuf>,
) -> Values {
    let given = arguments.as_object().into_iter().flatten();
    let is_declared = |name: &str| declared.iter().any(|matcher| matcher.argument == name);
    let further = given.filter(|(name, _)| !is_declared(name));
    let further = further.map(|(name, value)| {
        let kind = if value.is_string() {
            "string"
        } else {
            "object"
        };
        (name.clone(), serde_json::json!({ "type": kind }))
    });
    let further: serde_json::Map<_, _> = further.collect();
    if further.is_empty() {
        return linked(declared, arguments, textual);
    }
    let further = serde_json::json!({ "properties": further });
    let mut all = matchers(&further, folder().as_deref());
    all.extend_from_slice(declared);
    let textual = cairn_engine::rules::values(&all, &arguments.to_string());
    linked(&all, arguments, textual)
}

fn linked(matchers: &[Matcher], arguments: &Json, mut values: Values) -> Values {
    for matcher in matchers {
        if let Some(folder) = &matcher.folder
            && let Some(given) = arguments[&matcher.argument].as_str()
            && let Some(Value::Known(path)) = values.get_mut(&matcher.name)
        {
            *path = real(Path::new(folder), given);
        }
    }
    values
}

/// Where a path really leads, in one form: from the folder if it is below. A `..` after a link leads out of
/// the folder that the link leads to, as for the system.
fn real(folder: &Path, path: &str) -> String {
    let real = walk(&folder.join(path));
    match real.strip_prefix(folder) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => real.display().to_string(),
    }
}

/// What is not there yet is made in a folder that is; a link to it leads there all the same.
fn walk(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = real.pop(),
            Component::CurDir => {}
            part => {
                real.push(part);
                if let Ok(there) = real.canonicalize() {
                    real = there;
                } else if let Ok(target) = real.read_link() {
                    real.pop();
                    real = normal(&real.join(target));
                }
            }
        }
    }
    real
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = normal.pop(),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_formats_decide_how_a_value_is_read() {
        use MatcherKind::{Host, Json, Path, Text};
        let cases = [
            ("path", "path", Path),
            ("log_path", "log_path", Path),
            ("filePath", "filePath", Path),
            ("config_file", "config_file", Path),
            ("work_dir", "work_dir", Path),
            ("paths", "path", Path),
            ("url", "host", Host),
            ("baseUrl", "host", Host),
            ("endpoint", "host", Host),
            ("site", "host", Host),
            ("note", "note", Text),
            ("count", "count", Json),
            ("tags", "tags", Json),
        ];
        for (argument, name, kind) in cases {
            let property = match argument {
                "site" => json!({"type": "string", "format": "uri"}),
                "count" => json!({"type": "integer", "default": 3}),
                "tags" => json!({"type": ["array", "null"]}),
                _ => json!({}),
            };
            let found = matchers(
                &json!({"type": "object", "properties": {argument: property}}),
                None,
            );
            let [found] = &*found else {
                panic!("{argument}: {found:?}");
            };
            assert_eq!((&*found.name, found.kind), (name, kind), "{argument}");
            let default = (argument == "count").then(|| "3".to_owned());
            assert_eq!(found.default, default, "{argument}");
        }
    }

    #[test]
    fn arguments_that_are_not_declared_are_read_by_their_names() {
        let declared = matchers(&json!({"properties": {"note": {"type": "string"}}}), None);
        let of = |arguments: Json| {
            let textual = cairn_engine::rules::values(&declared, &arguments.to_string());
            resolve(&declared, &arguments, textual, || Some("/nowhere".into()))
        };
        let known = |text: &str| Some(Value::Known(text.to_owned()));
        let values = of(json!({"note": "n", "path": "/nowhere/a/../b", "count": 3}));
        assert_eq!(values.get("note").cloned(), known("n"));
        assert_eq!(values.get("path").cloned(), known("b"));
        assert_eq!(values.get("count").cloned(), known("3"));
        let values = of(json!({"path": {"a": "b"}}));
        assert_eq!(values.get("path"), Some(&Value::Unclear));
    }

    #[test]
    fn a_list_of_paths_is_unclear() {
        for name in ["paths", "path"] {
            let schema = json!({"type": "object", "properties": {name: {"type": "array"}}});
            let arguments = json!({name: ["a"]}).to_string();
            let values = cairn_engine::rules::values(&matchers(&schema, None), &arguments);
            assert_eq!(values.get("path"), Some(&Value::Unclear));
        }
    }

    #[test]
    fn a_link_shows_where_it_leads() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(at.join("ws/real")).unwrap();
        std::fs::create_dir(at.join("outside")).unwrap();
        std::os::unix::fs::symlink(at.join("ws/real"), at.join("ws/link")).unwrap();
        std::os::unix::fs::symlink(at.join("outside"), at.join("ws/out")).unwrap();
        std::os::unix::fs::symlink(at.join("nowhere"), at.join("ws/gone")).unwrap();
        let ws = at.join("ws");
        let outside = at.join("outside/new.txt").display().to_string();
        for (path, expected) in [
            ("real/a.txt", "real/a.txt".to_owned()),
            ("new/a.txt", "new/a.txt".to_owned()),
            (".", ".".to_owned()),
            ("link/a.txt", "real/a.txt".to_owned()),
            ("link", "real".to_owned()),
            ("out/new.txt", outside),
            // The same file in other words.
            ("../ws/real/a.txt", "real/a.txt".to_owned()),
            (
                &*ws.join("real/a.txt").display().to_string(),
                "real/a.txt".to_owned(),
            ),
            // Its text says real/a.txt.
            (
                "out/../real/a.txt",
                at.join("real/a.txt").display().to_string(),
            ),
            ("link/../real/a.txt", "real/a.txt".to_owned()),
            ("gone", at.join("nowhere").display().to_string()),
        ] {
            assert_eq!(real(&ws, path), expected, "{path}");
        }
    }
}
