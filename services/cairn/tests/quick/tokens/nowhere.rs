//! Looks for tokens in everything that processes wrote.

use cairn_testkit::Site;
use std::fs;
use std::path::{Path, PathBuf};

/// No token is in a file but its own: logs, settings, the store and what a run left.
pub(super) fn tokens_are_nowhere(site: &Site, folder: &Path, ports: &[u16]) {
    let tokens = ports.iter().map(|port| {
        let token = fs::read_to_string(folder.join(format!("{port}.token")));
        token.expect("a token").trim().to_owned()
    });
    let tokens: Vec<String> = tokens.collect();
    let files = [files_below(site.path()), files_below(site.state())].concat();
    let has = |name: &str| files.iter().any(|file| file.ends_with(name));
    assert!(has("cairn.db") && has("orchestrator.log"), "{files:?}");
    let others = files.iter().filter(|file| {
        file.extension()
            .is_none_or(|extension| extension != "token")
    });
    for file in others {
        let content = fs::read(file).expect("a file");
        let content = String::from_utf8_lossy(&content);
        for token in &tokens {
            assert!(!content.contains(token), "{}", file.display());
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match fs::symlink_metadata(&path).expect("metadata") {
            it if it.is_dir() => files.extend(files_below(&path)),
            it if it.is_file() => files.push(path),
            _ => {}
        }
    }
    files
}
