//! The function's log file: what its instances print, and one line per invocation.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::clock;

const LARGEST_FILE: u64 = 10 * 1024 * 1024;
const LONGEST_LINE: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// The open file and its length; `None` when it cannot be opened.
    file: Mutex<Option<(File, u64)>>,
}

impl Log {
    pub(super) fn open(path: &Path) -> Self {
        let file = Mutex::new(append_to(path));
        Self {
            path: path.to_owned(),
            file,
        }
    }

    pub(super) fn line(&self, who: &str, text: &str) {
        let line = format!("{} {who} {text}\n", clock::now());
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if slot
            .as_ref()
            .is_some_and(|(_, length)| *length > LARGEST_FILE)
        {
            // Losing the older half of a log is better than losing the disk.
            _ = std::fs::rename(&self.path, self.path.with_extension("log.1"));
            *slot = append_to(&self.path);
        }
        if let Some((file, length)) = slot.as_mut()
            && file.write_all(line.as_bytes()).is_ok()
        {
            *length += line.len() as u64;
        }
    }

    /// Copies everything an instance prints, line by line, until it closes its end.
    pub(super) async fn copy(&self, who: &str, mut from: impl AsyncRead + Unpin) {
        let mut pending = Vec::new();
        let mut chunk = vec![0; 8192];
        while let Ok(count) = from.read(&mut chunk).await {
            if count == 0 {
                break;
            }
            pending.extend_from_slice(&chunk[..count]);
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                self.line(who, String::from_utf8_lossy(&line[..end]).trim_end());
            }
            if pending.len() > LONGEST_LINE {
                self.line(who, &String::from_utf8_lossy(&pending));
                pending.clear();
            }
        }
        if !pending.is_empty() {
            self.line(who, &String::from_utf8_lossy(&pending));
        }
    }
}

fn append_to(path: &Path) -> Option<(File, u64)> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    match opened.and_then(|file| Ok((file.metadata()?.len(), file))) {
        Ok((length, file)) => Some((file, length)),
        Err(error) => {
            eprintln!("toshi-sandbox: cannot write {}: {error}", path.display());
            None
        }
    }
}
