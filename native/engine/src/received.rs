//! Reading a request body before it is passed on: into memory, or into a file if it is large.

use crate::body::BodyError;
use crate::exchange::{Exchange, Received};
use crate::phases::flow::Flow;
use bytes::Bytes;
use gallop_conf::model::{InFile, Level};
use gallop_runtime::timeout;
use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;

/// Read the whole body into `ex.received`; an error is the flow that ends the request.
pub async fn read(ex: &mut Exchange) -> Result<(), Flow> {
    let in_file = ex.loc.conf.client_body_in_file_only;
    read_as(ex, in_file.unwrap_or(InFile::Off)).await
}

/// Read the whole body into a temporary file, which is removed at the end of the request unless it
/// was moved.
pub async fn read_to_file(ex: &mut Exchange) -> Result<(Arc<File>, PathBuf), Flow> {
    read_as(ex, InFile::Clean).await?;
    let bytes = match &ex.received {
        Some(Received::File {
            file,
            path: Some(path),
            ..
        }) => return Ok((file.clone(), path.clone())),
        Some(Received::Memory(bytes)) => bytes.clone(),
        Some(Received::File { path: None, .. }) | None => Bytes::new(),
    };
    let made = temp_file(ex).and_then(|(mut file, path)| {
        let guard = Removed(path.clone());
        file.write_all(&bytes)?;
        Ok((Arc::new(file), path, guard))
    });
    let (file, path, guard) = made.map_err(|e| failed(ex, &e))?;
    ex.guards.push(Box::new(guard));
    Ok((file, path))
}

async fn read_as(ex: &mut Exchange, in_file: InFile) -> Result<(), Flow> {
    if ex.received.is_some() {
        return Ok(());
    }
    let loc = ex.loc.clone();
    if in_file == InFile::Off && ex.source.is_ended() && !ex.expect_continue {
        ex.received = Some(Received::Memory(Bytes::new()));
        return Ok(());
    }
    let limit = loc.conf.client_body_buffer_size.unwrap_or(16 * 1024) as usize;
    let mut memory: Vec<u8> = Vec::new();
    // As in nginx, an empty body gets a file too; a request without a body does not.
    let has_body = ex.content_length.is_some() || ex.chunked;
    let mut file: Option<(File, PathBuf)> = None;
    if in_file != InFile::Off && has_body {
        file = Some(temp_file(ex).map_err(|e| failed(ex, &e))?);
    }
    let mut total = 0u64;
    while let Some(data) = next(ex).await? {
        total += data.len() as u64;
        check_size(ex, total)?;
        if file.is_none() && memory.len() + data.len() > limit {
            let mut made = temp_file(ex).map_err(|e| failed(ex, &e))?;
            made.0.write_all(&memory).map_err(|e| failed(ex, &e))?;
            memory = Vec::new();
            file = Some(made);
        }
        match &mut file {
            Some((file, _)) => file.write_all(&data).map_err(|e| failed(ex, &e))?,
            None => memory.extend_from_slice(&data),
        }
    }
    ex.received = Some(match file {
        None => Received::Memory(Bytes::from(memory)),
        Some((file, path)) => {
            if in_file != InFile::On {
                ex.guards.push(Box::new(Removed(path.clone())));
            }
            Received::File {
                file: Arc::new(file),
                len: total,
                path: Some(path),
            }
        }
    });
    Ok(())
}

/// Take the part of the body that arrived with the head, which may be all of it.
pub async fn read_ready(ex: &mut Exchange) -> Result<(), Flow> {
    let limit = ex.loc.conf.client_body_buffer_size.unwrap_or(16 * 1024) as usize;
    let mut early: Vec<u8> = Vec::new();
    while early.len() < limit {
        let next = poll_fn(|cx| Poll::Ready(ex.poll_body(cx))).await;
        match next {
            Poll::Pending => break,
            Poll::Ready(Ok(Some(data))) => early.extend_from_slice(&data),
            Poll::Ready(Ok(None)) => {
                ex.received = Some(Received::Memory(Bytes::from(early)));
                return Ok(());
            }
            Poll::Ready(Err(e)) => return Err(refuse(ex, e)),
        }
        check_size(ex, early.len() as u64)?;
    }
    ex.early_body = Bytes::from(early);
    Ok(())
}

/// The next piece of the body; an error is the flow that ends the request.
pub async fn next(ex: &mut Exchange) -> Result<Option<Bytes>, Flow> {
    let ms = ex.loc.conf.client_body_timeout.unwrap_or(60_000);
    match timeout(ms, ex.next_body()).await {
        Ok(Ok(data)) => Ok(data),
        Ok(Err(e)) => Err(refuse(ex, e)),
        Err(_) => Err(refuse(ex, BodyError::TimedOut)),
    }
}

/// The flow for a request whose body cannot be read.
pub fn refuse(ex: &mut Exchange, e: BodyError) -> Flow {
    match e {
        BodyError::Status(status, reason) => {
            ex.log(Level::Error, reason);
            ex.keepalive = false;
            Flow::Status(status)
        }
        BodyError::Closed(_) => {
            ex.log(Level::Info, "client prematurely closed connection");
            ex.response.status = 400;
            Flow::Close
        }
        BodyError::TimedOut => {
            let doing = "while reading client request body";
            ex.log(
                Level::Info,
                &format!("client timed out (110: Connection timed out) {doing}"),
            );
            ex.response.status = 408;
            Flow::Close
        }
    }
}

/// Check the size of a chunked body while it arrives; an announced length was checked before.
pub fn check_size(ex: &mut Exchange, total: u64) -> Result<(), Flow> {
    let max = ex.loc.conf.client_max_body_size.unwrap_or(1 << 20);
    if max != 0 && total > max && ex.content_length.is_none() {
        ex.log(
            Level::Error,
            &format!("client intended to send too large chunked body: {total} bytes"),
        );
        ex.keepalive = false;
        return Err(Flow::Status(413));
    }
    Ok(())
}

fn failed(ex: &Exchange, e: &io::Error) -> Flow {
    let words = gallop_conf::parser::os_error(e);
    ex.log(
        Level::Crit,
        &format!("cannot keep the request body in a temporary file ({words})"),
    );
    Flow::Status(500)
}

fn temp_file(ex: &Exchange) -> io::Result<(File, PathBuf)> {
    let folder = match &ex.loc.conf.client_body_temp_path {
        Some(path) => path.clone(),
        None => ex.worker.shared.config.prefix.join("client_body_temp"),
    };
    crate::creating::make_private_folder(&folder)?;
    let path = folder.join(format!(
        "{:010}-{}",
        crate::worker_unique(),
        std::process::id()
    ));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    Ok((file, path))
}

/// Removes a temporary file when the request ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
