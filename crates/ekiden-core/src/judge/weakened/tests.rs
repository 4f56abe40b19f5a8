use expect_test::{Expect, expect};

use super::{Weakening, is_test_file, weakened_tests};

#[expect(
    clippy::needless_pass_by_value,
    reason = "`expect!` makes a value for each case"
)]
fn check(diff: &str, expected: Expect) {
    let signs: String = weakened_tests(diff)
        .into_iter()
        .map(|sign| match sign.how {
            Weakening::Deleted => format!("{}: deleted\n", sign.path),
            Weakening::Skipped { marks } => format!("{}: {marks} skipped\n", sign.path),
            Weakening::FewerAssertions { by } => format!("{}: {by} assertions fewer\n", sign.path),
        })
        .collect();
    expected.assert_eq(&signs);
}

/// A difference of one file, by its changed lines.
fn of(path: &str, lines: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nindex 1..2 100644\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n{lines}\n"
    )
}

fn deleted(path: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\ndeleted file mode 100644\nindex 1..0\n--- a/{path}\n+++ /dev/null\n\
         @@ -1,2 +0,0 @@\n-def test_a():\n-    assert total() == 3\n"
    )
}

// shows: REL-32
#[test]
fn a_deleted_test_file_is_a_sign_and_another_file_is_none() {
    check(
        &format!(
            "{}{}",
            deleted("tests/test_billing.py"),
            deleted("src/billing.py")
        ),
        expect![[r#"
            tests/test_billing.py: deleted
        "#]],
    );
}

// shows: REL-32
#[test]
fn skips_are_found_in_many_languages() {
    let diff = [
        of("tests/test_a.py", "+@pytest.mark.skip(reason=\"flaky\")"),
        of("tests/test_b.py", "+    pytest.skip(\"later\")"),
        of("src/a.rs", concat!("+    #[", "ignore = \"slow\"]")),
        of(
            "web/cart.test.ts",
            "-it('adds', () => {\n+it.skip('adds', () => {",
        ),
        of("web/cart.spec.js", "+xdescribe('cart', () => {"),
        of("pkg/cart_test.go", "+\tt.Skip(\"not now\")"),
        of("src/test/java/CartTest.java", "+    @Disabled"),
        of(
            "Cart.Tests/CartTests.cs",
            "-    [Fact]\n+    [Fact(Skip = \"x\")]",
        ),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_a.py: 1 skipped
            tests/test_b.py: 1 skipped
            src/a.rs: 1 skipped
            web/cart.test.ts: 1 skipped
            web/cart.spec.js: 1 skipped
            pkg/cart_test.go: 1 skipped
            src/test/java/CartTest.java: 1 skipped
            Cart.Tests/CartTests.cs: 1 skipped
        "#]],
    );
}

// shows: REL-32
#[test]
fn fewer_tests_and_assertions_are_signs() {
    let diff = [
        of(
            "tests/test_a.py",
            "-def test_rounding():\n-    assert round(x) == 2\n-    assert y",
        ),
        of(
            "src/parser.rs",
            "-    #[tokio::test]\n-    async fn nested() {\n-        assert_eq!(depth(), 3);\n-    }",
        ),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_a.py: 2 assertions fewer
            src/parser.rs: 1 assertions fewer
        "#]],
    );
}

// shows: REL-32
#[test]
fn an_assertion_that_is_a_comment_now_is_none() {
    let diff = [
        of(
            "tests/test_b.py",
            "-    assert total() == 3\n+    # assert total() == 3",
        ),
        of(
            "tests/test_c.py",
            "-    assert total() == 3\n+    self.assertTrue(total() == 3)",
        ),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_b.py: 1 assertions fewer
        "#]],
    );
}

// shows: REL-32
#[test]
fn tests_that_moved_or_were_rewritten_are_no_sign() {
    let moved = [
        of(
            "tests/test_all.py",
            "-def test_a():\n-    assert a() == 1\n-def test_b():\n-    assert b() == 2",
        ),
        of("tests/test_a.py", "+def test_a():\n+    assert a() == 1"),
        of(
            "tests/test_b.py",
            "+    def test_b():\n+        assert b() == 2",
        ),
        of(
            "tests/test_c.py",
            "-    self.assertEqual(c(), 3)\n+    assert c() == 3",
        ),
        of("src/main.py", "-    assert ready\n+    sys.exit(1)"),
        of("tests/test_exit.py", "+    sys.exit(1)"),
        of("src/rest.rs", "+    let rest = items.iter().skip(1);"),
        of("tests/test_d.py", "+def test_more():\n+    assert d()"),
    ];
    check(&moved.concat(), expect![""]);
}

#[test]
fn what_git_says_of_a_file_is_not_taken_for_its_lines() {
    let diff = "diff --git a/tests/test_a.py b/tests/test_b.py\nsimilarity index 100%\nrename from tests/test_a.py\n\
                rename to tests/test_b.py\ndiff --git a/tests/x.bin b/tests/x.bin\ndeleted file mode 100644\n\
                Binary files a/tests/x.bin and /dev/null differ\n";
    check(
        diff,
        expect![[r#"
            tests/x.bin: deleted
        "#]],
    );
    check("", expect![""]);
}

#[test]
fn test_files_are_known_by_their_names() {
    for path in [
        "test_a.py",
        "a/b_test.go",
        "spec/cart_spec.rb",
        "src/cart.test.tsx",
        "src/CartTest.java",
        "app/__tests__/cart.js",
        "tests/cart.rs",
        "src/judge/tests.rs",
        "conftest.py",
        "Tests/Cart.swift",
    ] {
        assert!(is_test_file(path), "{path}");
    }
    for path in [
        "src/contest.rs",
        "latest.py",
        "tests/README.md",
        "src/attest/key.rs",
        "src/a.rs",
        "tests/cart.py.bak",
    ] {
        assert!(!is_test_file(path), "{path}");
    }
}

// shows: REL-32
#[test]
fn a_test_file_that_is_set_aside_is_as_good_as_deleted() {
    let aside = [
        deleted("tests/test_billing.py"),
        of(
            "tests/test_billing.py.bak",
            "+def test_a():\n+    assert total() == 3",
        ),
    ];
    check(
        &aside.concat(),
        expect![[r#"
            tests/test_billing.py: deleted
        "#]],
    );
}

// shows: REL-32
#[test]
fn a_test_file_that_is_renamed_to_be_no_test_is_as_good_as_deleted() {
    let renamed = |from: &str, to: &str| {
        format!(
            "diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n"
        )
    };
    let edited = "index 1..2 100644\n--- a/tests/test_c.py\n+++ b/old/c.py\n@@ -1 +1 @@\n\
                  -    assert c() == 3\n+    assert c() == 4\n";
    let all = [
        renamed("tests/test_a.py", "tests/test_a.py.bak"),
        renamed("tests/test_b.py", "tests/test_bb.py"),
        renamed("tests/test_c.py", "old/c.py") + edited,
        renamed("src/judge/tests.rs", "src/judge/checks.rs"),
        renamed("src/old.py", "src/new.py"),
    ];
    check(
        &all.concat(),
        expect![[r#"
            tests/test_a.py: deleted
            tests/test_c.py: deleted
        "#]],
    );
}
