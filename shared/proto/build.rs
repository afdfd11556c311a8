//! Compiles the contracts with protox, so that nobody needs protoc, and keeps the descriptors for
//! reflection.

#![allow(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts through the environment"
)]

use prost::Message as _;
use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let descriptors = protox::compile(&files, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::Codec")
        // In order, so that the same command is the same bytes.
        .btree_map(".cairn.event.v1")
        .btree_map(".cairn.api.v1")
        .btree_map(".cairn.memory.v1")
        // Large and rare: acknowledgements and results are as large as the largest message otherwise.
        .boxed(".cairn.executor.v1.RunStepRequest.message.start")
        .boxed(".cairn.executor.v1.RunStepResponse.reply")
        .boxed(".cairn.executor.v1.RunStepResponse.delta")
        .boxed(".cairn.executor.v1.RunStepResponse.part")
        .boxed(".cairn.executor.v1.RunStepResponse.summary")
        // Journals are bytes on their way between wire and disk: slices of the request, no copies.
        .bytes(".cairn.memory.v1.CreateSessionRequest")
        .bytes(".cairn.memory.v1.CopyEventsRequest")
        .bytes(".cairn.memory.v1.CopyCompletion")
        .bytes(".cairn.memory.v1.TranscriptEvent")
        .bytes(".cairn.memory.v1.TranscriptPage")
        .bytes(".cairn.orchestrator.v1.ArchivedEvent")
        .bytes(".cairn.orchestrator.v1.ImportSessionRequest")
        .bytes(".cairn.orchestrator.v1.GetResultResponse")
        .bytes(".cairn.memory.v1.CommitRequest")
        .bytes(".cairn.memory.v1.StoredEvent")
        .bytes(".cairn.memory.v1.AppendCommandRequest")
        .bytes(".cairn.memory.v1.Checkpoint")
        .bytes(".cairn.memory.v1.PutBlobRequest")
        .bytes(".cairn.memory.v1.GetBlobResponse")
        .bytes(".cairn.memory.v1.PublishDeltaRequest")
        .bytes(".cairn.memory.v1.FollowEventsResponse")
        .bytes(".cairn.memory.v1.Document")
        .bytes(".cairn.memory.v1.PutDocumentRequest")
        .compile_fds(descriptors)?;
    Ok(())
}

fn collect(folder: &PathBuf, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
