//! `cairn knowledge put`: files are stored as pages.

use super::files::{self, MAX_ID, Source};
use super::{check_line, check_tags, request_id, wrong};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::live::{size, wrap};
use crate::ui::{out, screen};
use cairn_agents::document::MAX_FILE;
use cairn_agents::page::MAX_PAGE_FILE;
use cairn_engine::limits::{MAX_PAGE_TEXT, MAX_PAGE_TITLE};
use cairn_proto::api::{Page, PutPageRequest};
use cairn_rpc::text::escape;
use serde_json::json;
use std::io::{Read, stdin};
use std::path::PathBuf;

/// Of more pages, a terminal shows how far the command is in place of a line for each.
const MOST_LINES: usize = 20;
/// Names standard input.
const INPUT: &str = "-";

/// The arguments of `cairn knowledge put`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of a folder, the files that end in .md, .markdown and .txt are stored, with those in the folders in it. Hidden
files, hidden folders and links in a folder are left out. A page has the id of its file: the path in the folder
that you name, without the ending. So putting a folder again replaces its pages. Pages whose files are gone
stay; delete them with cairn knowledge delete.

Front matter can have a title and tags. Without a title, the first heading is the title, and without a heading
the name of the file. If a file has faults, nothing is stored. If the command is interrupted, the pages that
are stored stay, and you can run it again.

With --json one object for each page: id, version, title, tags, path (null for standard input).

Examples:
  cairn knowledge put docs
  cairn knowledge put notes/*.md --tag notes
  cairn knowledge put backup.md --id ops/backup --title \"Backups\"
  git log -1 --format=%B | cairn knowledge put - --id last-change --title \"The last change\"")]
pub(super) struct Args {
    /// Files, folders, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    paths: Vec<PathBuf>,
    /// The id of the page, for one file [default: that of the file; for standard input a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The title of the page, for one file [default: that in the file, or else the file's name]
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// A further tag of each page; several times for several tags
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl Args {
    /// # Errors
    /// A value that no page has.
    fn check(&self) -> Result<(), CliError> {
        if let Some(id) = self.id.as_deref().filter(|id| !is_id(id)) {
            let allowed = format!("1 to {MAX_ID} printable ASCII characters without spaces");
            return Err(wrong("--id", id, &allowed));
        }
        if let Some(title) = &self.title {
            check_line("--title", title, MAX_PAGE_TITLE)?;
        }
        check_tags(&self.tags)
    }
}

fn is_id(text: &str) -> bool {
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads the files, and stores each as a page.
///
/// # Errors
/// A value that no page has; all faults of the files; two files with one id; the service's; an interruption.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    args.check()?;
    let read = tokio::task::spawn_blocking(move || read(&args));
    let pages = tokio::select! {
        read = read => read.map_err(|error| CliError::chain(&error))??,
        () = context.stop.cancelled() => {
            return Err(CliError::new("interrupted; nothing was stored").code(INTERRUPTED));
        }
    };
    // A page belongs to no session, and no tool is called.
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let stored = put_all(&mut client, pages).await;
    client.finish().await;
    stored
}

/// The pages of the files, with what the command line says of them.
fn read(args: &Args) -> Result<Vec<Source>, CliError> {
    let has_input = args.paths.iter().any(|path| path.as_os_str() == INPUT);
    let mut pages = if has_input {
        if args.paths.len() > 1 {
            let message = "- stands alone: standard input is one page, and files are others";
            return Err(CliError::usage(message));
        }
        vec![files::read_input(
            &input(stdin().lock())?,
            args.title.as_deref(),
        )?]
    } else {
        let mut found = files::find(&args.paths)?;
        // A file that is named twice is one page.
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        check_one("--id", args.id.is_some(), found.len())?;
        check_one("--title", args.title.is_some(), found.len())?;
        files::check_ids(&found)?;
        files::read(found)?
    };
    for page in &mut pages {
        let others = args.tags.iter().filter(|tag| !page.tags.contains(tag));
        let others: Vec<String> = others.cloned().collect();
        page.tags.extend(others);
        if let Some(id) = &args.id {
            page.id = Some(id.clone());
            page.is_coined = false;
        }
        if let Some(title) = &args.title {
            page.title.clone_from(title);
        }
    }
    Ok(pages)
}

/// Refuses a flag that is about one page, where there are several.
fn check_one(flag: &str, is_given: bool, count: usize) -> Result<(), CliError> {
    match is_given && count > 1 {
        true => Err(CliError::usage(format!(
            "{flag} is for one page, and there are {count} files"
        ))),
        false => Ok(()),
    }
}

/// The text of standard input, of which no more is read than a page may have.
///
/// # Errors
/// It cannot be read, or has more.
fn input(from: impl Read) -> Result<Vec<u8>, CliError> {
    let most = u64::try_from(MAX_PAGE_FILE).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = from.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| CliError::new(format!("standard input cannot be read: {error}")))?;
    match bytes.len() > MAX_PAGE_FILE {
        true => Err(CliError::usage(format!(
            "standard input has more than {MAX_PAGE_FILE} bytes (allowed: a text of at most {MAX_PAGE_TEXT} bytes, \
             after front matter of at most {MAX_FILE}); store its parts as pages of their own"
        ))),
        false => Ok(bytes),
    }
}

/// Stores the pages one after the other. Each is stored as a whole or not at all.
async fn put_all(client: &mut Client<'_>, pages: Vec<Source>) -> Result<(), CliError> {
    let context = client.context();
    let count = pages.len();
    let is_moving = context.live && count > MOST_LINES;
    let stored = Box::pin(put_each(client, pages, is_moving)).await;
    if is_moving {
        // A terminal that has gone needs no cleaning.
        let _ = screen::frame(&[], Vec::new());
    }
    stored?;
    match context.json || count == 1 {
        true => Ok(()),
        false => out::line(&format!("{count} pages are stored")),
    }
}

async fn put_each(
    client: &mut Client<'_>,
    pages: Vec<Source>,
    is_moving: bool,
) -> Result<(), CliError> {
    let context = client.context();
    let count = pages.len();
    for (stored, page) in pages.into_iter().enumerate() {
        let after = |error: CliError| counted_after(error, stored, count);
        if context.stop.is_cancelled() {
            return Err(after(CliError::new("interrupted").code(INTERRUPTED)));
        }
        let path = page.path.clone();
        let title = match page.is_coined {
            true => format!(": {}", escape(&page.title)),
            false => String::new(),
        };
        if is_moving {
            let path = path.as_deref().unwrap_or(INPUT);
            let line = format!("storing {} of {count}: {}", stored + 1, escape(path));
            let line = wrap(&line, size().0.saturating_sub(1)).remove(0);
            screen::frame(&[], vec![line])?;
        }
        let put = put(client, page).await.map_err(after)?;
        match (context.json, is_moving) {
            (true, _) => out::json(&to_json(&put, path.as_deref()))?,
            (false, true) => {}
            (false, false) => {
                let (id, version) = (escape(&put.id), put.version);
                out::line(&format!("page {id} is stored, version {version}{title}"))?;
            }
        }
    }
    Ok(())
}

async fn put(client: &mut Client<'_>, page: Source) -> Result<Page, CliError> {
    let request = PutPageRequest {
        request_id: request_id(),
        id: page.id,
        title: page.title,
        text: page.text,
        tags: page.tags,
        expected_version: None,
    };
    let put = client.persist_knowledge(|mut knowledge| {
        let request = request.clone();
        async move { knowledge.put_page(request).await }
    });
    Ok(put.await?.page.unwrap_or_default())
}

/// The error, with the pages that are stored already.
fn counted_after(error: CliError, stored: usize, count: usize) -> CliError {
    if count == 1 {
        return error;
    }
    CliError {
        message: format!("{}; {stored} of {count} pages are stored", error.message),
        ..error
    }
}

fn to_json(page: &Page, path: Option<&str>) -> serde_json::Value {
    json!({
        "id": page.id,
        "version": page.version,
        "title": page.title,
        "tags": page.tags,
        "path": path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(paths: Vec<PathBuf>) -> Args {
        Args {
            paths,
            id: None,
            title: None,
            tags: vec!["ops".to_owned()],
        }
    }

    #[test]
    fn the_command_line_comes_after_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.md");
        std::fs::write(&path, "---\ntags: [a]\n---\n# Keys\n").unwrap();
        // Named twice, it is one page.
        let page = read(&args(vec![path.clone(), path.clone()])).unwrap();
        let [page] = page.as_slice() else {
            panic!("one page: {page:?}");
        };
        assert_eq!(page.tags, ["a", "ops"]);
        assert_eq!(page.id.as_deref(), Some("keys"));
        let given = Args {
            id: Some("k".to_owned()),
            title: Some("T".to_owned()),
            ..args(vec![path])
        };
        let page = read(&given).unwrap().remove(0);
        assert_eq!((page.id.as_deref(), page.title.as_str()), (Some("k"), "T"));
    }

    #[test]
    fn a_flag_for_one_page_is_refused_for_several() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.md", "b.md"] {
            std::fs::write(folder.path().join(name), "Text\n").unwrap();
        }
        let given = Args {
            title: Some("T".to_owned()),
            ..args(vec![folder.path().to_owned()])
        };
        let error = read(&given).unwrap_err().message;
        assert_eq!(error, "--title is for one page, and there are 2 files");
        let error = read(&args(vec![PathBuf::from(INPUT), PathBuf::from("a.md")]));
        assert!(error.unwrap_err().message.starts_with("- stands alone"));
    }

    #[test]
    fn standard_input_that_is_too_long_is_an_error_with_the_limit() {
        assert_eq!(input(&b"Tape"[..]).unwrap(), b"Tape");
        let error = input(std::io::repeat(b'a')).unwrap_err().message;
        let said =
            "standard input has more than 270336 bytes (allowed: a text of at most 204800 bytes, ";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn an_error_after_others_says_how_many_pages_are_stored() {
        let error = counted_after(CliError::new("full").code(INTERRUPTED), 2, 5);
        assert_eq!(error.message, "full; 2 of 5 pages are stored");
        assert_eq!(error.code, INTERRUPTED);
        assert_eq!(counted_after(CliError::new("full"), 0, 1).message, "full");
    }
}
