//! `cairn knowledge`: pages that all sessions share are stored, found, listed, shown and deleted.

mod delete;
mod files;
mod list;
mod put;
mod search;
mod show;

use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::command;
use cairn_engine::limits::{MAX_PAGE_TAG, is_page_line};
use cairn_rpc::text::clip;
use clap::Subcommand;
use std::process::ExitCode;

/// The arguments of `cairn knowledge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A page is a text with a title and tags. All sessions of the store share the pages. Models find pages with the
tool retrieve, and store them with save_knowledge.

Examples:
  cairn knowledge put docs                     every Markdown file of a folder, as a page each
  cairn knowledge put rotation.md --tag ops
  git log -1 --format=%B | cairn knowledge put - --id last-change --title \"The last change\"
  cairn knowledge search how are keys rotated
  cairn knowledge show rotation
  cairn knowledge delete rotation")]
pub struct Args {
    /// The action
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store files as pages, or replace the pages
    Put(put::Args),
    /// Find pages by words, the best first
    Search(search::Args),
    /// List the pages
    List(list::Args),
    /// Show one page
    Show(show::Args),
    /// Delete a page
    Delete(delete::Args),
}

/// Stores, finds, lists, shows or deletes.
///
/// # Errors
/// Faults of a file; no such page; the services'.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match args.action {
        Action::Put(args) => put::run(args, context).await?,
        Action::Search(args) => search::run(args, context).await?,
        Action::List(args) => list::run(args, context).await?,
        Action::Show(args) => show::run(args, context).await?,
        Action::Delete(args) => delete::run(args, context).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Most bytes of a wrong value in a message.
const SHOWN: usize = 80;
/// Reason of the services: there is no page of this id.
const PAGE_NOT_FOUND: &str = "PAGE_NOT_FOUND";

/// An error about a page that is not there, with the way to those that are.
fn not_found(context: &Context, error: CliError) -> CliError {
    if error.reason != PAGE_NOT_FOUND {
        return error;
    }
    let list = command(context, "knowledge list");
    error.hint(format!("see the pages with: {list}"))
}

/// Retries of one command are one request.
fn request_id() -> String {
    format!("page-{}", uuid::Uuid::now_v7().simple())
}

/// Refuses tags that no page has.
///
/// # Errors
/// A tag is no line, or is too long.
fn check_tags(tags: &[String]) -> Result<(), CliError> {
    tags.iter()
        .try_for_each(|tag| check_line("--tag", tag, MAX_PAGE_TAG))
}

/// Refuses the value of a flag that is not one line of at most so many bytes.
///
/// # Errors
/// The value is no line, or is too long.
fn check_line(flag: &str, value: &str, most_bytes: usize) -> Result<(), CliError> {
    match is_page_line(value, most_bytes) {
        true => Ok(()),
        false => Err(wrong(
            flag,
            value,
            &format!("one line of 1 to {most_bytes} bytes"),
        )),
    }
}

/// A flag whose value is not allowed.
fn wrong(flag: &str, value: &str, allowed: &str) -> CliError {
    let value = clip(value, SHOWN);
    CliError::usage(format!("{flag} is \"{value}\" (allowed: {allowed})"))
}
