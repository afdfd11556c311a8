//! The values of a call that rules may name, by the schema of the arguments.

use cairn_engine::rules::{Matcher, MatcherKind, Value, Values};
use serde_json::Value as Json;
use std::path::{Component, Path, PathBuf};

/// Arguments that are paths.
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
/// Lists of paths.
const PATH_LISTS: [&str; 4] = ["paths", "files", "filenames", "directories"];
/// Arguments that are addresses.
const ADDRESSES: [&str; 2] = ["url", "uri"];
/// Lists of addresses.
const ADDRESS_LISTS: [&str; 2] = ["urls", "uris"];
/// The name in rules of every address.
const HOST: &str = "host";
/// The name in rules of lists of paths.
const PATH: &str = "path";

/// A value for each text of the arguments. Lists of paths and addresses count as unclear values, so that
/// rules that ask or deny hold for them, too.
pub(crate) fn matchers(schema: &Json) -> Vec<Matcher> {
    let Some(Json::Object(properties)) = schema.get("properties") else {
        return Vec::new();
    };
    let of = |(name, property): (&String, &Json)| {
        let (kind, shown) = if may_be(property, "string") {
            kind_of(name, property)
        } else if may_be(property, "array") {
            list_of(name)?
        } else {
            return None;
        };
        Some(Matcher {
            name: shown.to_owned(),
            kind,
            argument: name.clone(),
            default: property
                .get("default")
                .and_then(Json::as_str)
                .map(str::to_owned),
        })
    };
    properties.iter().filter_map(of).collect()
}

fn kind_of<'a>(name: &'a str, property: &Json) -> (MatcherKind, &'a str) {
    let is_address = property.get("format").and_then(Json::as_str) == Some("uri");
    if is_address || ADDRESSES.contains(&name) {
        (MatcherKind::Host, HOST)
    } else if PATHS.contains(&name) || name.ends_with("_path") || name.ends_with("Path") {
        (MatcherKind::Path, name)
    } else {
        (MatcherKind::Text, name)
    }
}

fn list_of(name: &str) -> Option<(MatcherKind, &'static str)> {
    if PATH_LISTS.contains(&name) || name.ends_with("_paths") {
        Some((MatcherKind::Path, PATH))
    } else if ADDRESS_LISTS.contains(&name) {
        Some((MatcherKind::Host, HOST))
    } else {
        None
    }
}

/// Whether a schema lets the type through; one that says nothing of types does.
fn may_be(property: &Json, kind: &str) -> bool {
    match property.get("type") {
        Some(Json::String(only)) => only == kind,
        Some(Json::Array(several)) => several.iter().any(|it| it == kind),
        _ => kind == "string",
    }
}

/// The paths as they really are, for a program that runs in `folder`: where a link is on the way, the
/// value becomes the path that it leads to.
pub(crate) fn resolve(
    matchers: &[Matcher],
    folder: &Path,
    arguments: &serde_json::Value,
    mut values: Values,
) -> Values {
    let Ok(folder) = folder.canonicalize() else {
        return values;
    };
    for matcher in matchers.iter().filter(|it| it.kind == MatcherKind::Path) {
        let said = arguments[&matcher.argument].as_str();
        if let Some(said) = said
            && let Some(Value::Known(path)) = values.get_mut(&matcher.name)
        {
            *path = real(&folder, said);
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
        let schema = json!({"type": "object", "properties": {
            "path": {"type": "string", "default": "."},
            "log_path": {"type": ["string", "null"]},
            "url": {"type": "string"},
            "site": {"type": "string", "format": "uri"},
            "note": {},
            "paths": {"type": "array", "items": {"type": "string"}},
            "count": {"type": "integer"},
            "tags": {"type": "array"},
        }});
        let found = matchers(&schema);
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.argument.as_str(), it.name.as_str(), it.kind))
            .collect();
        let expected = [
            ("path", "path", MatcherKind::Path),
            ("log_path", "log_path", MatcherKind::Path),
            ("url", "host", MatcherKind::Host),
            ("site", "host", MatcherKind::Host),
            ("note", "note", MatcherKind::Text),
            ("paths", "path", MatcherKind::Path),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_list_of_paths_is_unclear() {
        let schema = json!({"type": "object", "properties": {"paths": {"type": "array"}}});
        let values = cairn_engine::rules::values(&matchers(&schema), r#"{"paths": ["a"]}"#);
        assert_eq!(values.get("path"), Some(&Value::Unclear));
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
