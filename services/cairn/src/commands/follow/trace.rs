//! The execution tree as files, written anew after every change.

use super::{Following, Orchestrator};
use crate::error::CliError;
use cairn_proto::orchestrator::{GetTreeRequest, TreeView};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files in a folder.
#[derive(Debug)]
pub(super) struct Trace {
    folder: PathBuf,
    has_changed: bool,
}

impl Trace {
    /// Into this folder, which is made if it is not there.
    pub(super) fn new(folder: PathBuf) -> Result<Self, CliError> {
        fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
        Ok(Self {
            folder,
            has_changed: false,
        })
    }

    /// The tree is no longer what the files say.
    pub(super) fn changed(&mut self) {
        self.has_changed = true;
    }

    /// Writes the files if the tree has changed. Changes that come together are written once.
    pub(super) async fn write(
        &mut self,
        orchestrator: &mut Orchestrator,
        what: &Following,
    ) -> Result<(), CliError> {
        if !self.has_changed {
            return Ok(());
        }
        for (view, name) in [(TreeView::Text, "tree.txt"), (TreeView::Json, "tree.json")] {
            let request = GetTreeRequest {
                session: what.session.clone(),
                run: what.run,
                view: view.into(),
            };
            // While the store changes hands there is no tree; the next tick tries again.
            let Ok(tree) = orchestrator.get_tree(request).await else {
                return Ok(());
            };
            let path = self.folder.join(name);
            replace(&path, &tree.into_inner().text).map_err(|error| cannot(&path, &error))?;
        }
        self.has_changed = false;
        Ok(())
    }
}

/// Readers see the whole old file or the whole new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

fn cannot(path: &Path, error: &io::Error) -> CliError {
    CliError::new(format!("cannot write {}: {error}", path.display()))
        .hint("give another folder with --tree-dir=DIR")
}
