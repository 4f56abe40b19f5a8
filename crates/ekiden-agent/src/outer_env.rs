//! The environment of the process that started ekiden itself, which no child inherits.

/// Variables by which an agent that started ekiden recognises its own processes. They do not include logins,
/// providers or the user's settings of the client.
pub const OUTER_AGENT_ENV: [&str; 10] = [
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_ENV_FILE",
    "CLAUDE_EFFORT",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_PLUGIN_DATA",
];

/// Variables by which git, if it started ekiden in a hook, knows its repository, index and objects. With them git in a
/// child would work there, wherever it runs. `git rev-parse --local-env-vars` lists them. Git's settings
/// (`GIT_CONFIG_PARAMETERS`, `GIT_CONFIG_COUNT`) stay, as git itself leaves them to other repositories. The variables
/// that say how git reads paths do not: an editor that commits with `--literal-pathspecs` passes that on to its hooks.
pub const OUTER_GIT_ENV: [&str; 19] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Whose commit a git hook is about, and of when. Git sets them together with `GIT_INDEX_FILE`; otherwise they are the
/// user's own.
pub(crate) const OUTER_AUTHOR_ENV: [&str; 3] =
    ["GIT_AUTHOR_DATE", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME"];
