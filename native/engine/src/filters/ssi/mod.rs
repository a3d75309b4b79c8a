//! Server Side Includes: commands in the body, and subrequests whose responses replace them.

mod scan;
mod value;

use crate::body::{read_range, Body, BodyStream, Chunk};
use crate::escape::{self, Use};
use crate::exchange::Exchange;
use crate::subrequest::{self, Running, SubBody, MAX_DEPTH};
use bytes::Bytes;
use gallop_conf::model::Level;
use scan::{Command, Scanner, Token};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::{poll_fn, Future};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll};

/// The state shared by a request and its subrequests.
#[derive(Default)]
pub struct Shared {
    vars: RefCell<HashMap<String, Vec<u8>>>,
    /// The text of each `block`, for `stub`.
    blocks: RefCell<HashMap<String, Vec<u8>>>,
}

#[derive(Clone, Copy)]
enum Encoding {
    None,
    Url,
    Entity,
}

const ERROR: &[u8] = b"[an error occurred while processing the directive]";
/// The most parts prepared before the client has received the earlier ones.
const AHEAD: usize = 64;
/// Bytes of a file that are scanned at a time.
const STEP: u64 = 64 * 1024;

pub fn apply(ex: &mut Exchange) {
    let loc = ex.loc.clone();
    let conf = &loc.conf;
    let empty = ex.response.content_length == Some(0);
    if conf.ssi != Some(true) || empty || !super::is_of_types(&ex.response, &conf.ssi_types) {
        return;
    }
    if !ex.is_subrequest() {
        super::body_changes(&mut ex.response);
        if conf.ssi_last_modified != Some(true) {
            super::forget_validators(&mut ex.response);
        }
    }
    if ex.header_only {
        return;
    }
    let shared = ex.ssi.get_or_insert_default().clone();
    let inner = std::mem::take(&mut ex.response.body);
    let mut own = subrequest::same(ex);
    own.depth = ex.depth;
    ex.response.body = Body::Stream(Box::new(Ssi {
        inner: Some(inner),
        pending: None,
        silent: conf.ssi_silent_errors == Some(true),
        ex: own,
        shared,
        scanner: Scanner::default(),
        tokens: VecDeque::new(),
        parts: VecDeque::new(),
        branches: Vec::new(),
        block: None,
        error: ERROR.to_vec(),
        encoding: Encoding::Entity,
        failed: None,
    }));
}

/// An `if` with its `elif`s and `else`.
struct Branch {
    /// Whether the current branch is used.
    active: bool,
    /// Whether a branch was already used.
    taken: bool,
}

/// A subrequest whose body becomes a variable; `None` if its response is an error or a redirect.
type Collected = Pin<Box<dyn Future<Output = io::Result<Option<Vec<u8>>>>>>;

enum Part {
    Data(Bytes),
    Running(Running, Include),
    Body(Body, Include),
    Variable(Collected, String),
}

#[derive(Default)]
struct Include {
    /// Whether the commands after it wait for its end.
    wait: bool,
    /// The block that replaces an empty response.
    stub: Option<String>,
}

struct Ssi {
    inner: Option<Body>,
    /// A file range that was partly read.
    pending: Option<Chunk>,
    silent: bool,
    /// Replaces the request, whose own fields are being sent already.
    ex: Box<Exchange>,
    shared: Rc<Shared>,
    scanner: Scanner,
    tokens: VecDeque<Token>,
    parts: VecDeque<Part>,
    branches: Vec<Branch>,
    block: Option<(String, Vec<u8>)>,
    error: Vec<u8>,
    /// The encoding of this `echo` and later ones.
    encoding: Encoding,
    failed: Option<io::Error>,
}

impl BodyStream for Ssi {
    fn may_hold(&self) -> bool {
        true
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        loop {
            self.progress(cx);
            if let Err(e) = self.fill(cx) {
                return Poll::Ready(Some(Err(e)));
            }
            if let Some(e) = self.failed.take() {
                return Poll::Ready(Some(Err(e)));
            }
            match self.parts.front_mut() {
                None if self.inner.is_none() && self.tokens.is_empty() => {
                    return Poll::Ready(None);
                }
                None => return Poll::Pending,
                Some(Part::Data(_)) => {
                    if let Some(Part::Data(data)) = self.parts.pop_front() {
                        return Poll::Ready(Some(Ok(Chunk::Data(data))));
                    }
                }
                Some(Part::Body(body, include)) => match ready!(body.poll_next(cx)) {
                    Some(Ok(chunk)) => {
                        if !chunk.is_empty() {
                            include.stub = None;
                        }
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                    Some(Err(e)) => return Poll::Ready(Some(Err(e))),
                    None => self.included(),
                },
                Some(Part::Running(..) | Part::Variable(..)) => {
                    self.progress(cx);
                    let waits = |p: &Part| matches!(p, Part::Running(..) | Part::Variable(..));
                    if self.parts.front().is_some_and(waits) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Ssi {
    /// Let all subrequests progress, including those whose output is not due yet.
    fn progress(&mut self, cx: &mut Context<'_>) {
        let mut i = 0;
        while i < self.parts.len() {
            match &mut self.parts[i] {
                Part::Running(running, include) => {
                    if let Poll::Ready(mut sub) = running.poll_exchange(cx) {
                        let include = std::mem::take(include);
                        // If a block replaces the response, an error page is not needed.
                        if include.stub.is_some() && sub.error_status != 0 {
                            sub.response.body = Body::Empty;
                        }
                        let body = Body::Stream(Box::new(SubBody::new(sub)));
                        self.parts[i] = Part::Body(body, include);
                    }
                }
                Part::Variable(collected, name) => {
                    if let Poll::Ready(value) = collected.as_mut().poll(cx) {
                        let value = match value {
                            Ok(value) => value,
                            Err(e) => {
                                self.ex.log(Level::Error, &e.to_string());
                                let kind = io::ErrorKind::InvalidData;
                                self.failed = Some(io::Error::new(kind, e));
                                None
                            }
                        };
                        let mut vars = self.shared.vars.borrow_mut();
                        match value {
                            Some(value) => _ = vars.insert(name.clone(), value),
                            // The variable keeps its value and counts as known from now on.
                            None => _ = vars.entry(name.clone()).or_default(),
                        }
                        drop(vars);
                        self.parts.remove(i);
                        continue;
                    }
                }
                Part::Data(_) | Part::Body(..) => {}
            }
            i += 1;
        }
    }

    /// Whether scanning must wait for the end of a part.
    fn is_held(&self) -> bool {
        self.parts.len() >= AHEAD
            || self.parts.iter().any(|p| match p {
                Part::Running(_, include) | Part::Body(_, include) => include.wait,
                Part::Variable(..) => true,
                Part::Data(_) => false,
            })
    }

    /// Scan the text as far as it has arrived.
    fn fill(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.is_held() {
            if let Some(token) = self.tokens.pop_front() {
                self.token(token);
                self.progress(cx);
                continue;
            }
            let next = match (self.pending.take(), &mut self.inner) {
                (Some(chunk), _) => Some(Ok(chunk)),
                (None, None) => return Ok(()),
                (None, Some(body)) => match body.poll_next(cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(next) => next,
                },
            };
            match next {
                Some(chunk) => self.chunk(chunk?)?,
                None => {
                    self.inner = None;
                    self.scanner.finish(&mut self.tokens);
                }
            }
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: Chunk) -> io::Result<()> {
        match chunk {
            Chunk::Data(data) => self.scanner.push(&data, &mut self.tokens),
            Chunk::Flush => {}
            Chunk::File { file, offset, len } => {
                let step = len.min(STEP);
                let mut data = Vec::new();
                read_range(&file, offset, step, &mut data)?;
                self.scanner.push(&data, &mut self.tokens);
                if step < len {
                    self.pending = Some(Chunk::File {
                        file,
                        offset: offset + step,
                        len: len - step,
                    });
                }
            }
        }
        Ok(())
    }

    /// Handle the end of the first part.
    fn included(&mut self) {
        let Some(Part::Body(_, include)) = self.parts.pop_front() else {
            return;
        };
        let blocks = self.shared.blocks.borrow();
        let Some(text) = include.stub.and_then(|name| blocks.get(&name).cloned()) else {
            return;
        };
        drop(blocks);
        // The block's own commands come before the text that follows.
        let rest = std::mem::take(&mut self.parts);
        let mut scanner = Scanner::default();
        let mut tokens = VecDeque::new();
        scanner.push(&text, &mut tokens);
        scanner.finish(&mut tokens);
        tokens.into_iter().for_each(|t| self.token(t));
        self.parts.extend(rest);
    }

    fn is_active(&self) -> bool {
        self.branches.iter().all(|b| b.active)
    }

    fn put(&mut self, data: Vec<u8>) {
        if !data.is_empty() && self.is_active() {
            self.parts.push_back(Part::Data(data.into()));
        }
    }

    fn fail(&mut self, message: &str) {
        self.ex.log(Level::Error, message);
        if !self.silent {
            self.put(self.error.clone());
        }
    }

    fn token(&mut self, token: Token) {
        match (token, &mut self.block) {
            (Token::Command(c), Some(_)) if c.name == "endblock" => {
                if let Some((name, text)) = self.block.take() {
                    self.shared.blocks.borrow_mut().insert(name, text);
                }
            }
            (Token::Command(c), Some((_, text))) => text.extend_from_slice(&c.raw),
            (Token::Text(more), Some((_, text))) => text.extend_from_slice(&more),
            (Token::Text(text), None) => self.put(text),
            (Token::Invalid, _) => self.fail("invalid SSI command"),
            (Token::Command(command), None) => self.command(&command),
        }
    }

    fn command(&mut self, command: &Command) {
        match command.name.as_str() {
            "if" => self.condition(command, true),
            "elif" => self.condition(command, false),
            "else" => match self.branches.last_mut() {
                Some(branch) => {
                    branch.active = !branch.taken;
                    branch.taken = true;
                }
                None => self.fail("invalid context of SSI command: \"else\""),
            },
            "endif" => {
                if self.branches.pop().is_none() {
                    self.fail("invalid context of SSI command: \"endif\"");
                }
            }
            _ if !self.is_active() => {}
            "include" => self.include(command),
            "echo" => self.echo(command),
            "set" => self.set(command),
            "config" => self.config(command),
            "block" => match command.get("name") {
                Some(name) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.block = Some((name, Vec::new()));
                }
                None => {
                    self.fail("mandatory parameter \"name\" is absent in \"block\" SSI command")
                }
            },
            name => {
                let message = format!("invalid SSI command: \"{name}\"");
                self.fail(&message);
            }
        }
    }

    fn condition(&mut self, command: &Command, opens: bool) {
        if opens {
            // Commands inside an unused branch are ignored.
            let taken = !self.is_active();
            self.branches.push(Branch {
                active: false,
                taken,
            });
        }
        let Some(branch) = self.branches.last_mut() else {
            return self.fail("invalid context of SSI command: \"elif\"");
        };
        branch.active = false;
        if branch.taken {
            return;
        }
        let expression = command.get("expr").unwrap_or_default();
        match value::holds(&self.ex, &self.shared, expression) {
            Some(holds) => {
                branch.active = holds;
                branch.taken = holds;
            }
            None => {
                branch.taken = true;
                let shown = String::from_utf8_lossy(expression).into_owned();
                let outer = self.branches.pop();
                self.fail(&format!("invalid expression in \"{shown}\""));
                self.branches.extend(outer);
            }
        }
    }

    fn echo(&mut self, command: &Command) {
        let Some(name) = command.get("var") else {
            return self.fail("mandatory parameter \"var\" is absent in \"echo\" SSI command");
        };
        let mut text = Vec::new();
        if !value::variable(&self.ex, &self.shared, name, &mut text) {
            text = command.get("default").unwrap_or(b"(none)").to_vec();
        }
        match command.get("encoding") {
            None => {}
            Some(b"none") => self.encoding = Encoding::None,
            Some(b"url") => self.encoding = Encoding::Url,
            Some(b"entity") => self.encoding = Encoding::Entity,
            Some(other) => {
                let shown = String::from_utf8_lossy(other);
                let message = format!("unknown encoding \"{shown}\" in the \"echo\" command");
                self.ex.log(Level::Error, &message);
            }
        }
        let mut out = Vec::new();
        match self.encoding {
            Encoding::None => out = text,
            Encoding::Url => escape::escape(&text, Use::Html, &mut out),
            Encoding::Entity => escape::html(&text, &mut out),
        }
        self.put(out);
    }

    fn set(&mut self, command: &Command) {
        let (Some(name), Some(text)) = (command.get("var"), command.get("value")) else {
            return self.fail("mandatory parameter is absent in \"set\" SSI command");
        };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        match value::evaluate(&self.ex, &self.shared, text) {
            Some(value) => {
                self.shared.vars.borrow_mut().insert(name, value);
            }
            None => self.fail(&format!(
                "invalid value of \"{name}\" in \"set\" SSI command"
            )),
        }
    }

    fn config(&mut self, command: &Command) {
        if let Some(format) = command.get("timefmt") {
            let format = String::from_utf8_lossy(format).into_owned();
            self.ex.time_format = Some(format.into());
        }
        if let Some(message) = command.get("errmsg") {
            self.error = message.to_vec();
        }
    }

    fn include(&mut self, command: &Command) {
        let (target, wait) = match inclusion(command) {
            Ok(said) => said,
            Err(why) => return self.fail(why),
        };
        let Some(uri) = value::evaluate(&self.ex, &self.shared, target) else {
            return self.fail("invalid variable in \"include\" SSI command");
        };
        if self.ex.depth >= MAX_DEPTH {
            return self.fail("subrequests cycle while processing an \"include\" SSI command");
        }
        let base = &self.ex.uri.path;
        let folder = base.iter().rposition(|&c| c == b'/').map_or(0, |i| i + 1);
        let uri = match uri.first() {
            Some(b'/') => uri,
            _ => [&base[..folder], &uri].concat(),
        };
        let Some((path, args)) = crate::uri::split_unsafe(&uri) else {
            let shown = String::from_utf8_lossy(&uri).into_owned();
            return self.fail(&format!("unsafe URI \"{shown}\" was detected"));
        };
        let set = command
            .get("set")
            .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
        if self.ex.in_memory {
            // A page that includes itself would multiply its variables with every level.
            if let Some(name) = set {
                self.shared.vars.borrow_mut().entry(name).or_default();
            }
            let shown = String::from_utf8_lossy(&uri).into_owned();
            return self.fail(&format!("nested in-memory subrequest \"{shown}\""));
        }
        let mut sub = subrequest::child(&self.ex, path, args);
        sub.ssi = Some(self.shared.clone());
        if let Some(name) = set {
            sub.in_memory = true;
            let collected = Box::pin(collect(Running::new(sub)));
            return self.parts.push_back(Part::Variable(collected, name));
        }
        let text = |name: &str| command.get(name).map(String::from_utf8_lossy);
        let include = Include {
            wait,
            stub: text("stub").map(|s| s.into_owned()),
        };
        self.parts
            .push_back(Part::Running(Running::new(sub), include));
    }
}

/// The target of an include, and whether the following text waits for it; it always waits for a
/// file.
fn inclusion(command: &Command) -> Result<(&[u8], bool), &'static str> {
    if command.get("set").is_some() && command.get("stub").is_some() {
        return Err("\"set\" and \"stub\" cannot be used together in \"include\" SSI command");
    }
    match (
        command.get("virtual"),
        command.get("file"),
        command.get("wait"),
    ) {
        (Some(_), Some(_), _) => Err("inclusion may be either virtual or file"),
        (None, None, _) => Err("no parameter in \"include\" SSI command"),
        (None, Some(_), Some(_)) => Err("\"wait\" cannot be used with file"),
        (None, Some(file), None) => Ok((file, true)),
        (Some(target), None, None) => Ok((target, false)),
        (Some(target), None, Some(wait)) if wait.eq_ignore_ascii_case(b"no") => Ok((target, false)),
        (Some(target), None, Some(wait)) if wait.eq_ignore_ascii_case(b"yes") => Ok((target, true)),
        (Some(_), None, Some(_)) => Err("invalid value in the \"wait\" parameter"),
    }
}

async fn collect(mut running: Running) -> io::Result<Option<Vec<u8>>> {
    let sub = poll_fn(|cx| running.poll_exchange(cx)).await;
    let answered = sub.response.status < 300;
    let limit = sub.loc.conf.subrequest_output_buffer_size.unwrap_or(4096);
    let mut body = Body::Stream(Box::new(SubBody::new(sub)));
    let body = body.collect(limit as usize).await?;
    Ok(answered.then_some(body))
}
