//! The file tools by plain `std::fs`, with results in the form of the runtime's own.

use cairn_views::file_results::{
    Excerpt, FileKind, FileList, FileTotals, ListedFile, MatchTotals, MatchedLine, Matches, Written,
};
use serde_json::Value;
use std::path::Path;

pub(crate) fn call(root: &Path, name: &str, arguments: &Value) -> Result<String, String> {
    let text = |field: &str| arguments[field].as_str().unwrap_or(".").to_owned();
    let number = |field: &str| arguments[field].as_u64().expect("a number");
    let path = text("path");
    match name {
        "list_files" => Ok(list_files(root, &path)?.to_string()),
        "search_files" => Ok(search_files(root, &text("pattern"), &path)?.to_string()),
        "read_file" => {
            let excerpt = read_file(root, &path, number("from_line"), number("to_line"))?;
            Ok(excerpt.to_string())
        }
        "write_file" => write_file(root, &path, &text("content")),
        other => Err(format!("there is no tool '{other}'")),
    }
}

/// Paths of all files below `path`, sorted, without the output folder. The runtime's tools quote names
/// with tabs and line breaks.
fn walk(root: &Path, path: &str) -> Result<Vec<String>, String> {
    let (mut found, mut folders) = (Vec::new(), vec![path.to_owned()]);
    if root.join(path).is_file() {
        return Ok(folders);
    }
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder));
        let entries = entries.map_err(|_| format!("there is no '{path}' in the workspace"))?;
        for entry in entries.flatten() {
            let name = entry.file_name().into_string().expect("UTF-8");
            let path = format!("{folder}/{name}");
            let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
            match entry.path().is_dir() {
                true if path == "cairn-out" => {}
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}

fn list_files(root: &Path, path: &str) -> Result<FileList, String> {
    let (mut entries, mut totals) = (Vec::new(), FileTotals::default());
    for path in walk(root, path)? {
        let bytes = std::fs::read(root.join(&path)).expect("a file");
        let is_text = !bytes.contains(&0);
        totals.files += 1;
        totals.bytes += bytes.len() as u64;
        totals.text += u64::from(is_text);
        totals.binary += u64::from(!is_text);
        entries.push(ListedFile {
            path,
            bytes: bytes.len() as u64,
            lines: is_text.then(|| lines(&bytes).len() as u64),
            kind: if is_text {
                FileKind::Text
            } else {
                FileKind::Binary
            },
        });
    }
    Ok(FileList {
        entries,
        totals: Some(totals),
        is_cut: false,
        notes: Vec::new(),
    })
}

fn search_files(root: &Path, pattern: &str, path: &str) -> Result<Matches, String> {
    let (mut entries, mut totals) = (Vec::new(), MatchTotals::default());
    for path in walk(root, path)? {
        let bytes = std::fs::read(root.join(&path)).expect("a file");
        if bytes.contains(&0) {
            totals.binary += 1;
            continue;
        }
        totals.searched += 1;
        let before = totals.lines;
        for (line, text) in (1..).zip(lines(&bytes)) {
            if text.to_lowercase().contains(&pattern.to_lowercase()) {
                totals.lines += 1;
                let path = path.clone();
                entries.push(MatchedLine { path, line, text });
            }
        }
        totals.files += u64::from(totals.lines > before);
    }
    let is_cut = entries.len() > 200;
    entries.truncate(200);
    Ok(Matches {
        entries,
        totals: Some(totals),
        is_cut,
        notes: Vec::new(),
    })
}

fn read_file(root: &Path, path: &str, from: u64, to: u64) -> Result<Excerpt, String> {
    let bytes = std::fs::read(root.join(path)).map_err(|_| format!("there is no '{path}'"))?;
    let all = lines(&bytes);
    let (first, count) = (from as usize - 1, (to + 1 - from) as usize);
    Ok(Excerpt {
        path: path.to_owned(),
        first: from,
        total: all.len() as u64,
        is_lossy: std::str::from_utf8(&bytes).is_err(),
        lines: all.into_iter().skip(first).take(count).collect(),
        is_cut: false,
    })
}

fn write_file(root: &Path, path: &str, content: &str) -> Result<String, String> {
    if !path.starts_with("cairn-out/") {
        return Err(format!("'{path}' is not under cairn-out/"));
    }
    std::fs::create_dir_all(root.join("cairn-out")).expect("a folder");
    std::fs::write(root.join(path), content).expect("a file");
    let written = Written {
        path: path.to_owned(),
        bytes: content.len() as u64,
        lines: lines(content.as_bytes()).len() as u64,
    };
    Ok(written.to_string())
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::to_owned).collect()
}
