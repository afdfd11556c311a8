//! The execution tree as files, written anew after every change.

use super::{Following, Orchestrator};
use crate::error::CliError;
use crate::ui::file;
use cairn_proto::orchestrator::{GetTreeRequest, TreeView};
use std::fs;
use std::path::PathBuf;

/// The files in a folder.
#[derive(Debug)]
pub(super) struct Trace {
    folder: PathBuf,
    has_changed: bool,
}

impl Trace {
    /// Into this folder, which is made if it is not there.
    pub(super) fn new(folder: PathBuf) -> Result<Self, CliError> {
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| elsewhere(file::not_written(&folder, &error)))?;
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
                at_seq: 0,
            };
            // While the store changes hands there is no tree; the next tick tries again.
            let Ok(tree) = orchestrator.get_tree(request).await else {
                return Ok(());
            };
            let path = self.folder.join(name);
            file::replace(&path, &tree.into_inner().text).map_err(elsewhere)?;
        }
        self.has_changed = false;
        Ok(())
    }
}

fn elsewhere(error: CliError) -> CliError {
    error.hint("give another folder with --tree-dir=DIR")
}
