//! The file tools, by plain `std::fs`, with the results that the runtime's own tools give.

use serde_json::Value;
use std::path::Path;

pub(crate) fn call(
    root: &Path,
    limit: usize,
    name: &str,
    arguments: &Value,
) -> Result<String, String> {
    let text = |field: &str| arguments[field].as_str().map(str::to_owned);
    let number = |field: &str| arguments[field].as_u64();
    let path = text("path").unwrap_or_else(|| ".".into());
    match name {
        "list_files" => list_files(root, limit, &path, number("max").unwrap_or(1000)),
        "search_files" => {
            let max = number("max").unwrap_or(200);
            search_files(root, limit, &text("pattern").unwrap(), &path, max)
        }
        "read_file" => {
            let to = number("to_line").unwrap_or(u64::MAX);
            read_file(root, &path, number("from_line").unwrap_or(1), to)
        }
        "write_file" => write_file(root, &path, &text("content").unwrap()),
        other => Err(format!("there is no tool '{other}'")),
    }
}

/// Paths of all files below `path`, sorted, without hidden ones and the output folder.
fn walk(root: &Path, path: &str) -> Result<Vec<String>, String> {
    fn below(root: &Path, path: &str, found: &mut Vec<String>) -> std::io::Result<()> {
        for entry in std::fs::read_dir(root.join(path))? {
            let name = entry?.file_name().into_string().unwrap();
            if name.starts_with('.') || (path == "." && name == "cairn-out") {
                continue;
            }
            let path = if path == "." {
                name
            } else {
                format!("{path}/{name}")
            };
            if root.join(&path).is_dir() {
                below(root, &path, found)?;
            } else {
                found.push(path);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    below(root, path, &mut found)
        .map_err(|_| format!("'{path}' is not there; list_files shows what is"))?;
    found.sort();
    Ok(found)
}

/// Entries up to `max` and up to `limit` bytes, the total, and whether something was cut.
fn finish(entries: &[String], max: u64, limit: usize, total: &str) -> String {
    let mut text = String::new();
    let mut shown = 0;
    for entry in entries {
        if shown == max || text.len() + entry.len() + 512 > limit {
            break;
        }
        text += &format!("{entry}\n");
        shown += 1;
    }
    text += total;
    if shown < entries.len() as u64 {
        text += &format!("\ntruncated: showing the first {shown}");
    }
    text
}

fn list_files(root: &Path, limit: usize, path: &str, max: u64) -> Result<String, String> {
    let (mut entries, mut sum, mut texts) = (Vec::new(), 0, 0);
    for path in walk(root, path)? {
        let bytes = std::fs::read(root.join(&path)).unwrap();
        let is_text = !bytes.contains(&0);
        let lines = match is_text {
            true => lines_of(&bytes).len().to_string(),
            false => "-".to_owned(),
        };
        let kind = if is_text { "text" } else { "binary" };
        entries.push(format!("{path}\t{}\t{lines}\t{kind}", bytes.len()));
        sum += bytes.len();
        texts += usize::from(is_text);
    }
    let files = entries.len();
    let total = format!(
        "total: {files} files, {sum} bytes, {texts} text, {} binary",
        files - texts
    );
    Ok(finish(&entries, max, limit, &total))
}

fn search_files(
    root: &Path,
    limit: usize,
    pattern: &str,
    path: &str,
    max: u64,
) -> Result<String, String> {
    let pattern = pattern.to_lowercase();
    let (mut entries, mut files, mut searched, mut binary) = (Vec::new(), 0, 0, 0);
    for path in walk(root, path)? {
        let bytes = std::fs::read(root.join(&path)).unwrap();
        if bytes.contains(&0) {
            binary += 1;
            continue;
        }
        searched += 1;
        let before = entries.len();
        for (line, text) in (1..).zip(lines_of(&bytes)) {
            if text.to_lowercase().contains(&pattern) {
                let mut shown = text.clone();
                if text.chars().count() > 240 {
                    shown = text.chars().take(239).chain(['…']).collect();
                }
                entries.push(format!("{path}:{line}:\t{shown}"));
            }
        }
        files += usize::from(entries.len() > before);
    }
    let mut total = format!(
        "total: {} matching lines in {files} files, {searched} files searched",
        entries.len()
    );
    if binary > 0 {
        total += &format!(", {binary} binary files skipped");
    }
    Ok(finish(&entries, max, limit, &total))
}

fn read_file(root: &Path, path: &str, from: u64, to: u64) -> Result<String, String> {
    let bytes = std::fs::read(root.join(path)).map_err(|_| format!("'{path}' is not there"))?;
    if bytes.contains(&0) {
        return Err(format!("'{path}' is a binary file; only text can be read"));
    }
    let lines = lines_of(&bytes);
    let to = to.min(lines.len() as u64);
    if from > lines.len().max(1) as u64 {
        return Err(format!("from_line {from} is beyond the end"));
    }
    let mut text = format!("{path} lines {from}-{to} of {}", lines.len());
    if std::str::from_utf8(&bytes).is_err() {
        text += " (not valid UTF-8: shown with replacement characters)";
    }
    for number in from..=to {
        text += &format!("\n{number}\t{}", lines[number as usize - 1]);
    }
    Ok(text)
}

fn write_file(root: &Path, path: &str, content: &str) -> Result<String, String> {
    if !path.starts_with("cairn-out/") {
        return Err(format!("'{path}' is not under cairn-out/"));
    }
    std::fs::create_dir_all(root.join("cairn-out")).unwrap();
    std::fs::write(root.join(path), content).unwrap();
    Ok(format!(
        "wrote {path}: {} bytes, {} lines",
        content.len(),
        content.lines().count()
    ))
}

fn lines_of(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut lines: Vec<String> = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned())
        .collect();
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
