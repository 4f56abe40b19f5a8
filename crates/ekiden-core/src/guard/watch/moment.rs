//! The moments at which a watched session is looked at.

/// What happens in the session right now. Only the main thread is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// A conversation begins, or goes on.
    Begins(Source),
    /// A person's prompt begins a turn.
    Prompt,
    /// A tool was about to run that the verdict refuses at L3.
    Refuses,
    /// All tools of a response have run.
    AfterBatch(Batch),
    /// The turn is about to end.
    Stops {
        /// Background work still runs.
        background: bool,
    },
    /// The client is about to summarise the conversation.
    Compacts,
    /// The session is left.
    Ends,
}

/// How a conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Anew.
    Startup,
    /// Anew, in the place of one that was cleared.
    Clear,
    /// With its own summary.
    Compact,
    /// Where it stopped, or as a copy: it has all that it needs.
    Resume,
}

/// What a batch of tools amounted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Batch {
    /// Tests ran, and passed or not.
    pub tests: Option<bool>,
    /// Something was finished: a commit or a pull request made, an item closed.
    pub finished: bool,
    /// The document of the last checkpoint was written into.
    pub filled: bool,
}

impl Batch {
    /// Work can be left here without being in the middle of something.
    #[must_use]
    pub fn is_boundary(self) -> bool {
        self.finished || self.tests == Some(true)
    }
}
