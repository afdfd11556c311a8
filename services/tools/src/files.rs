//! The file tools: `list_files`, `read_file` and `search_files` see the workspace and the output
//! folder, `write_file` writes to the output folder alone.

mod list;
mod name;
mod read;
mod root;
mod search;
mod walk;
mod write;

use crate::config::Limits;
use crate::error::ToolError;
use crate::tool::{Call, Effect, Output, Tool, ToolSpec};
use root::Roots;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The four file tools over one workspace and one output folder.
///
/// # Errors
/// If the workspace cannot be opened.
pub(crate) fn tools(
    workspace: &Path,
    output: &Path,
    limits: &Limits,
) -> io::Result<Vec<Arc<dyn Tool>>> {
    let folders = Arc::new(Folders {
        roots: Roots::open(workspace, output)?,
        limits: limits.clone(),
    });
    Ok(vec![
        Arc::new(list::ListFiles::new(folders.clone())),
        Arc::new(read::ReadFile::new(folders.clone())),
        Arc::new(search::SearchFiles::new(folders.clone())),
        Arc::new(write::WriteFile::new(folders)),
    ])
}

/// What all file tools work with.
#[derive(Debug)]
struct Folders {
    roots: Roots,
    limits: Limits,
}

impl Folders {
    fn spec(&self, name: &str, description: &str, parameters: Value, effect: Effect) -> ToolSpec {
        ToolSpec {
            effect,
            time_limit: Duration::from_millis(self.limits.file_time_ms),
            output_limit: self.limits.output_bytes,
            ..ToolSpec::new(name, description, parameters)
        }
    }
}

/// Tells work on another thread that nobody wants its result.
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

/// Does file work where waiting for a disk holds up nobody.
async fn blocking<F>(call: &Call, work: F) -> Result<Output, ToolError>
where
    F: FnOnce(&Stop) -> Result<Output, ToolError> + Send + 'static,
{
    let stop = Stop(call.stop.clone());
    let work = move || {
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
