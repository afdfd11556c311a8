//! The arguments of a call that rules may name, by their schema, and where paths in them lead.

use cairn_engine::canonical::to_canonical_json;
use cairn_engine::rules::{Condition, Matcher, MatcherKind, Scope, kind_of_text};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Most links on one way, as for the system.
const MOST_LINKS: usize = 40;
/// Files that lead elsewhere in each process.
const OF_PROCESS: [&str; 2] = ["/proc", "/dev/fd"];
/// The name that is shown for the value of every address.
const HOST: &str = "host";

/// A value for each argument, so that an approval of further calls holds for the same ones. Without any, the
/// folder alone, for what calls have all the same.
/// `folder` is where the program that gets them runs. `kinds` are those that the operator declares.
pub(crate) fn matchers(
    schema: &Json,
    folder: Option<&Path>,
    kinds: &BTreeMap<String, MatcherKind>,
) -> Vec<Matcher> {
    let folder = folder.map(|folder| folder.display().to_string());
    let properties = schema.get("properties").and_then(Json::as_object);
    let Some(properties) = properties.filter(|it| !it.is_empty()) else {
        return folder.map(Matcher::of_undeclared).into_iter().collect();
    };
    let of = |(name, property): (&String, &Json)| {
        let kind = kinds.get(name).copied();
        let kind = kind.unwrap_or_else(|| kind_of(name, property));
        let default = property.get("default").filter(|it| !it.is_null());
        // As a call that gives the same value is read. Another default that is no text stands for none there.
        let default = default.and_then(|it| match (kind, it) {
            (MatcherKind::Json, _) | (MatcherKind::Path, Json::Object(_)) => {
                Some(to_canonical_json(it))
            }
            (MatcherKind::Path, Json::Array(paths)) => {
                (!paths.is_empty()).then(|| to_canonical_json(it))
            }
            _ => it.as_str().map(str::to_owned),
        });
        let shown = match kind {
            MatcherKind::Host => HOST,
            _ => name.as_str(),
        };
        Matcher {
            name: shown.to_owned(),
            folder: folder.clone(),
            kind,
            argument: name.clone(),
            default,
        }
    };
    properties.iter().map(of).collect()
}

fn kind_of(name: &str, property: &Json) -> MatcherKind {
    if property.get("format").and_then(Json::as_str) == Some("uri") {
        return MatcherKind::Host;
    }
    let has = |types: &[&str]| may_have(property, types);
    match kind_of_text(name) {
        // Lists of them, too; a count or a flag is none.
        kind @ (MatcherKind::Host | MatcherKind::Path) if has(&["string", "array", "object"]) => {
            kind
        }
        _ if !has(&["string"]) => MatcherKind::Json,
        // The schema has all values that there are.
        _ if property.get("enum").is_some() || property.get("const").is_some() => {
            MatcherKind::Prose
        }
        kind => kind,
    }
}

/// Whether a schema lets one of these types through; one that says nothing of types does.
fn may_have(property: &Json, types: &[&str]) -> bool {
    let choices = property.get("anyOf").or_else(|| property.get("oneOf"));
    if let Some(Json::Array(choices)) = choices
        && !choices.iter().any(|choice| may_have(choice, types))
    {
        return false;
    }
    match property.get("type") {
        Some(Json::String(only)) => types.contains(&only.as_str()),
        Some(Json::Array(several)) => {
            let mut several = several.iter().filter_map(Json::as_str);
            several.any(|it| types.contains(&it))
        }
        _ => true,
    }
}

/// The texts of a call that lead elsewhere than they say, by links in the folder of the program that gets
/// them. The path is empty if where a text leads cannot be decided. Without a folder, nothing is known.
pub(crate) fn links(matchers: &[Matcher], scope: &Scope) -> Vec<Condition> {
    let mut folders = matchers.iter().filter_map(|it| it.folder.as_deref());
    let Some(folder) = folders.next() else {
        return Vec::new();
    };
    let folder = walk(Path::new(folder));
    let texts: BTreeMap<&str, &str> = scope.texts().collect();
    let found = texts.into_iter().filter_map(|(text, says)| {
        let leads = folder.as_deref().and_then(|folder| real(folder, text));
        (leads.as_deref() != Some(says)).then(|| Condition {
            name: text.to_owned(),
            pattern: leads.unwrap_or_default(),
        })
    });
    found.collect()
}

/// Where a path really leads, in one form: from the folder, which is without links, if it is below. A `..`
/// after a link leads out of the folder that the link leads to, as for the system. None if that cannot be
/// decided.
fn real(folder: &Path, path: &str) -> Option<String> {
    let real = walk(&folder.join(path))?;
    Some(match real.strip_prefix(folder) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => real.display().to_string(),
    })
}

/// The path without links. What is not there yet is made in a folder that is; a link to it leads there all
/// the same, and so does a link to a link.
fn walk(path: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::new();
    let mut left = parts(path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == "." {
            continue;
        }
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(part);
        if OF_PROCESS.iter().any(|it| real.starts_with(it)) {
            return None;
        }
        match real.read_link() {
            Ok(target) => {
                links += 1;
                if links > MOST_LINKS {
                    return None;
                }
                real.pop();
                left.extend(parts(&target));
            }
            // What this process cannot see, the server may.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            Err(_) => {}
        }
    }
    Some(real)
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests;
