//! The file tools: `list_files`, `read_file` and `search_files` see the workspace and the output
//! folder, `edit_file` and `write_file` write there. Of the workspace they show what [`view`] says. The
//! setting `workspace.write` may keep writes to the output folder.

mod atomic;
mod diff;
mod edit;
mod expression;
mod lines;
mod list;
mod locate;
mod name;
mod protected;
mod read;
mod replace;
mod root;
mod rules;
mod search;
mod target;
mod view;
mod walk;
mod write;
mod writing;

pub(crate) use name::is_odd;
pub(crate) use protected::FOLDERS as PROTECTED_FOLDERS;
pub(crate) use root::{Linked, OUTPUT, open_entry, open_folder, open_output};
pub(crate) use view::check_show;
pub use write::write_output;

use crate::config::{Limits, Write};
use crate::error::ToolError;
use crate::tool::{Call, Effect, Tool, ToolSpec};
use cairn_engine::limits::RESULT_BYTES;
use cairn_engine::rules::{Matcher, MatcherKind};
use protected::Protected;
use root::Roots;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use view::View;
use writing::Turns;

/// What tools that go through folders say of the output folder.
const NOT_OUTPUT: &str = "The output folder 'cairn-out' is not in '.': name it.";

/// What file tools may do.
#[derive(Debug)]
pub(crate) struct Settings<'a> {
    /// Opens paths that are not shown otherwise.
    pub(crate) show: &'a [String],
    /// Never shown, and never written.
    pub(crate) private: Vec<PathBuf>,
    /// Where they write.
    pub(crate) write: Write,
    /// Folders of agents and skills, from the workspace: a person approves each write of their files.
    pub(crate) protected: Vec<String>,
    /// Bounds of one call.
    pub(crate) limits: &'a Limits,
}

/// The file tools over one workspace, an absolute path without links, and one output folder.
///
/// # Errors
/// If the workspace cannot be opened.
pub(crate) fn tools(
    workspace: &Path,
    output: &Path,
    settings: Settings<'_>,
) -> io::Result<Vec<Arc<dyn Tool>>> {
    let view = View::new(workspace.to_owned(), settings.show, settings.private);
    let folders = Arc::new(Folders {
        workspace: workspace.display().to_string(),
        roots: Roots::open(workspace, output, view, Protected::new(&settings.protected))?,
        write: settings.write,
        limits: settings.limits.clone(),
        turns: Turns::default(),
    });
    Ok(vec![
        Arc::new(edit::EditFile::new(folders.clone())),
        Arc::new(list::ListFiles::new(folders.clone())),
        Arc::new(read::ReadFile::new(folders.clone())),
        Arc::new(search::SearchFiles::new(folders.clone())),
        Arc::new(write::WriteFile::new(folders)),
    ])
}

/// What all file tools work with.
#[derive(Debug)]
struct Folders {
    workspace: String,
    roots: Roots,
    write: Write,
    limits: Limits,
    turns: Turns,
}

impl Folders {
    fn spec(&self, name: &str, description: &str, parameters: Value, effect: Effect) -> ToolSpec {
        let names = parameters["properties"].as_object().into_iter().flatten();
        let matcher = |(name, _): (&String, &Value)| {
            let is_path = name == "path";
            Matcher {
                folder: Some(self.workspace.clone()),
                name: name.clone(),
                kind: match is_path {
                    true => MatcherKind::Path,
                    // These tools open nothing else.
                    false => MatcherKind::Free,
                },
                argument: name.clone(),
                // A file must be named; a folder need not be.
                default: is_path.then(|| ".".to_owned()),
            }
        };
        ToolSpec {
            effect,
            time_limit: Duration::from_millis(self.limits.file_time_ms),
            output_limit: self.limits.output_bytes,
            matchers: names.map(matcher).collect(),
            ..ToolSpec::new(name, description, parameters)
        }
    }

    /// Bytes of a result that a model can read without a handle, unless `tools.result_bytes` is less than its
    /// default.
    fn page_bytes(&self) -> usize {
        RESULT_BYTES.min(self.limits.output_bytes)
    }

    /// Bytes of a listing or a search. A call that gives `max` wants all of these entries, and the model reads on
    /// in a long result. Any other call gets one page that ends with its totals.
    fn listing_bytes(&self, max: Option<usize>) -> usize {
        match max {
            Some(_) => self.limits.output_bytes,
            None => self.page_bytes(),
        }
    }
}

/// The stop signal of work on another thread: no caller waits for its result any more.
#[derive(Debug, Clone)]
struct Stop(CancellationToken);

impl Stop {
    fn check(&self) -> Result<(), ToolError> {
        if self.0.is_cancelled() {
            return Err(ToolError::ExecutionFailed(
                "the call was stopped".to_owned(),
            ));
        }
        Ok(())
    }
}

/// A buffer for reading so many bytes of a file in parts. To clear a large buffer takes longer than to
/// read a small file.
fn buffer_for(bytes: u64) -> Vec<u8> {
    const LARGEST: usize = 64 * 1024;
    let bytes = usize::try_from(bytes).unwrap_or(LARGEST);
    // A file may grow after its size was read, so there is always some room.
    vec![0; bytes.clamp(512, LARGEST)]
}

/// Does file work on a thread of its own, so that waiting for a disk holds up no other call. The call
/// keeps its slot until that thread has ended, although its caller may have gone before.
async fn blocking<T, F>(call: &Call, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
{
    let stop = Stop(call.stop.clone());
    let slot = call.slot.clone();
    let work = move || {
        let _slot = slot;
        // It may have waited for a thread.
        stop.check()?;
        work(&stop)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::NotSent(
                "the tools service is stopping".to_owned(),
            )),
        },
    }
}

/// Arguments that the schema has accepted, read leniently: an absent one is none.
struct Arguments<'a>(&'a Value);

impl<'a> Arguments<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    /// JSON Schema takes 5.0 for an integer too.
    fn number(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        value.as_u64().or_else(|| {
            let whole = value.as_f64().filter(|number| number.fract() == 0.0)?;
            // A float beyond the range saturates, which every limit below it then catches.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            (whole >= 0.0).then_some(whole as u64)
        })
    }

    fn count(&self, name: &str) -> Option<usize> {
        self.number(name)
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Permit;
    use crate::tool::{Output, Slot};
    use std::sync::mpsc;
    use tokio::sync::Semaphore;
    use tokio_util::task::TaskTracker;

    /// A disk may keep a thread for long after its caller has gone.
    #[tokio::test]
    async fn a_thread_keeps_the_slot_of_its_call_until_it_has_ended() {
        let (slots, running) = (Arc::new(Semaphore::new(1)), TaskTracker::new());
        let permit = slots.clone().acquire_owned().await.unwrap();
        let call = Call {
            trace: None,
            input: Default::default(),
            progress: Default::default(),
            key: String::new(),
            session: String::new(),
            arguments: Value::Null,
            stop: CancellationToken::new(),
            permit: Permit::unlimited(),
            slot: Slot::new(permit, running.token()),
            digests: None,
        };
        let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
        let (end, may_end) = mpsc::channel::<()>();
        {
            let work = blocking(&call, move |_| {
                begun.blocking_send(()).unwrap();
                may_end.recv().unwrap();
                Ok(Output::default())
            });
            tokio::select! {
                _ = work => panic!("it waits for the test"),
                _ = has_begun.recv() => {}
            }
        }
        drop(call);
        running.close();
        assert_eq!(slots.available_permits(), 0);
        assert_eq!(running.len(), 1);
        end.send(()).unwrap();
        running.wait().await;
        drop(slots.acquire().await.unwrap());
    }
}
