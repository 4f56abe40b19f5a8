//! What secrets look like, as data: [tokens](TOKENS), patterns at a known place, and values assigned to a name.

use std::sync::OnceLock;

use regex::Regex;

const TOKENS: &str = include_str!("tokens.txt");
/// Words for a key in a name. `key` alone may be anything.
const KEYS: &str = "api_key|api-key|apikey|access_key|access-key|accesskey|account_key|accountkey|\
    private_key|private-key|privatekey|signing_key|signing-key|signingkey|encryption_key|encryptionkey|\
    master_key|masterkey|auth_key|auth-key|authkey|service_key|app_key|appkey|subscription-key|\
    session_key|deploy_key|storage_key";

/// A kind of secret, and how it is found.
pub(super) struct Rule {
    /// The kind that the mask names.
    pub(super) kind: &'static str,
    /// The texts that find it. A [`Shape::Token`] begins with one exactly; the others match in any case.
    pub(super) starts: Vec<&'static str>,
    pub(super) shape: Shape,
    compiled: OnceLock<Regex>,
}

/// The text after a start. A pattern that may fail is bounded, so that a search costs little for any text.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// The start and the text that this pattern matches after it.
    Token(&'static str),
    /// The first group of a pattern.
    Part(&'static str, Strength),
    /// The value that is assigned to a name that contains the start.
    Assigned(Strength),
    /// The lines before the end mark of a key whose beginning was cut off.
    KeyEnd,
}

/// How much a text must look like a secret to count as one. A placeholder, such as `$TOKEN`, never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strength {
    /// Its place is enough.
    Any,
    /// People choose passwords: letters and a digit or a symbol.
    Weak,
    /// Programs make tokens and keys: they look random.
    Strong,
}

use Shape::{Assigned, KeyEnd, Part, Token};
use Strength::{Any, Strong, Weak};

/// All rules. If two starts match at the same place, the first counts.
pub(super) fn all() -> Vec<Rule> {
    let rule = |kind, starts, shape| Rule {
        kind,
        starts,
        shape,
        compiled: OnceLock::new(),
    };
    let tokens = TOKENS.lines().filter(|line| !line.starts_with('#'));
    let tokens = tokens.filter_map(|line| {
        let (kind, token) = line.split_once(": ")?;
        let (starts, pattern) = token.split_once(": ")?;
        Some(rule(kind, starts.split(' ').collect(), Token(pattern)))
    });
    let others = OTHERS.iter();
    let others =
        others.map(|(kind, starts, shape)| rule(kind, starts.split('|').collect(), *shape));
    tokens.chain(others).collect()
}

impl Rule {
    /// The pattern for the text after a start, compiled when it is first needed.
    pub(super) fn pattern(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            let pattern = match self.shape {
                Token(pattern) | Part(pattern, _) => format!("^(?:{pattern})"),
                Assigned(_) | KeyEnd => String::new(),
            };
            Regex::new(&pattern).expect("a test compiles each pattern")
        })
    }
}

/// What stands around the lines of a key: blanks, quotes, marks of a quotation or a diff, line numbers.
macro_rules! around_lines {
    () => {
        r#"(?:[ \t\r>|¦"',]|\n[ \t+-]?|\\+["nrt]|[0-9]{1,6}(?:→|[:\t]|\\+t))"#
    };
}

/// Secrets at a known place, and names whose values are secrets.
const OTHERS: &[(&str, &str, Shape)] = &[
    // https://learn.microsoft.com/entra/identity-platform, https://learn.microsoft.com/azure/devops/organizations/accounts
    (
        "azure signature",
        "?sig=|&sig=",
        Part("([A-Za-z0-9%+/]{40,}={0,2})", Strong),
    ),
    // https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
    (
        "signature",
        "amz-signature=|goog-signature=",
        Part("([a-f0-9]{64,})", Strong),
    ),
    // https://docs.slack.dev/authentication/tokens
    (
        "webhook",
        "hooks.slack.com/",
        Part("((?:services|workflows)/[A-Za-z0-9/_-]{20,})", Any),
    ),
    (
        "webhook",
        "/api/webhooks/",
        Part("[0-9]{15,20}/([A-Za-z0-9_-]{40,})", Any),
    ),
    // https://core.telegram.org/bots/api#authorizing-your-bot
    ("telegram token", ":AA", Part("([A-Za-z0-9_-]{33})", Strong)),
    // https://developer.hashicorp.com/terraform/cloud-docs/api-docs: behind the id of the token.
    (
        "terraform token",
        ".atlasv1.",
        Part("([A-Za-z0-9_=-]{40,})", Strong),
    ),
    // RFC 7468, RFC 4880: the lines between the marks, also in a string with `\n` for line ends, in a diff, quoted, with
    // line numbers, or cut off.
    (
        "private key",
        "-----BEGIN ",
        Part(
            concat!(
                r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:",
                around_lines!(),
                r"|[A-Z][A-Za-z-]{2,20}: [^\n\\]{0,100})*([A-Za-z0-9+/=]{16,}(?:",
                around_lines!(),
                r"+[A-Za-z0-9+/=]{16,})*(?:",
                around_lines!(),
                r"+[A-Za-z0-9=][A-Za-z0-9+/=]{3,14}){0,2})",
            ),
            Strong,
        ),
    ),
    ("private key", "-----END ", KeyEnd),
    // RFC 9110, RFC 7617, RFC 6750: `Authorization:` and `Proxy-Authorization:`, as a header or in code.
    (
        "authorization",
        "authorization",
        Part(
            concat!(
                r#"(?:\\*["'`\])]){0,3}[ \t]{0,3}(?:=>|[:=,])[ \t]{0,3}(?:\\*["'`])?"#,
                r"(?:(?i-u:bearer|basic|token|bot|apikey|digest|negotiate)[ \t]{1,3})?([A-Za-z0-9._~+/=:-]{8,})",
            ),
            Strong,
        ),
    ),
    (
        "authorization",
        "bearer ",
        Part("[ ]{0,3}([A-Za-z0-9._~+/=-]{16,})", Strong),
    ),
    // RFC 3986: the text before `@` in the address of a server, with or without a user.
    (
        "password",
        "://",
        Part(
            r#"[^ \t\r\n/:@"'`\\<>{}$]{0,64}:([^ \t\r\n/@"'`\\<>]{1,200})@"#,
            Any,
        ),
    ),
    ("password", "://", Part("([A-Za-z0-9_-]{16,200})@", Strong)),
    // https://everything.curl.dev/usingcurl/netrc.html, https://curl.se/docs/manpage.html#-u
    (
        "password",
        "login ",
        Part(
            r#"[^ \t\r\n"']{1,80}[ \t\r\n]{1,4}password[ \t]{1,4}([^ \t\r\n"'\\]{4,200})"#,
            Any,
        ),
    ),
    (
        "password",
        "curl",
        Part(
            r#"[^\n|;]{0,200}?[ \t](?:-u|--user)[ =]?\\*["']?[^ \t\r\n:"'\\$]{1,80}:([^ \t\r\n"'\\]{4,200})"#,
            Any,
        ),
    ),
    (
        "password",
        "sshpass -p",
        Part(
            r#"[ ]?["']?([^ \t\r\n"'\\:,\[\]{}][^ \t\r\n"'\\]{3,200})"#,
            Any,
        ),
    ),
    // https://dev.mysql.com/doc/refman/8.4/en/connecting.html, https://www.postgresql.org/docs/current/libpq-pgpass.html:
    // `mysql -pPASSWORD`, and `host:5432:database:user:password`.
    (
        "password",
        "mysql",
        Part(
            r#"[^\n|;&]{0,200}?[ \t"']-p\\*["']?([^ \t\r\n"'`\\|;&:]{4,200})"#,
            Weak,
        ),
    ),
    (
        "password",
        ":5432:",
        Part(
            r#"(?:[A-Za-z_*][^ \t\r\n:"'`\\]{0,62}:){2}([^ \t\r\n"'`\\]{4,200})"#,
            Weak,
        ),
    ),
    (
        "password",
        "password|passwd|passphrase|passcode|pwd|_pass|-pass|\"pass|'pass| pass",
        Assigned(Weak),
    ),
    ("key", KEYS, Assigned(Strong)),
    ("secret", "secret|credential", Assigned(Strong)),
    // `"auth"` is where Docker keeps a registry's password.
    ("token", "token|_auth|\"auth\"|\"auth\\\"", Assigned(Strong)),
];
