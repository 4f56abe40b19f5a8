use expect_test::{Expect, expect};

use super::{Weakening, is_test_file, weakened_tests};

#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value for each case")]
fn check(diff: &str, expected: Expect) {
    let signs: String = weakened_tests(diff)
        .into_iter()
        .map(|sign| match sign.how {
            Weakening::Deleted => format!("{}: deleted\n", sign.path),
            Weakening::Skipped { marks } => format!("{}: {marks} skipped\n", sign.path),
            Weakening::FewerTests { by } => format!("{}: {by} tests fewer\n", sign.path),
            Weakening::FewerAssertions { by } => format!("{}: {by} assertions fewer\n", sign.path),
            Weakening::FewerRuns { by } => format!("{}: {by} runs fewer\n", sign.path),
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
        &format!("{}{}", deleted("tests/test_billing.py"), deleted("src/billing.py")),
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
        of("web/cart.test.ts", "-it('adds', () => {\n+it.skip('adds', () => {"),
        of("web/cart.spec.js", "+xdescribe('cart', () => {"),
        of("pkg/cart_test.go", "+\tt.Skip(\"not now\")"),
        of("src/test/java/CartTest.java", "+    @Disabled"),
        of("Cart.Tests/CartTests.cs", "-    [Fact]\n+    [Fact(Skip = \"x\")]"),
        of("pyproject.toml", "+addopts = \"--deselect tests/test_a.py\""),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_a.py: 1 skipped
            tests/test_b.py: 1 skipped
            src/a.rs: 1 skipped
            web/cart.test.ts: 1 skipped
            web/cart.test.ts: 1 tests fewer
            web/cart.spec.js: 1 skipped
            pkg/cart_test.go: 1 skipped
            src/test/java/CartTest.java: 1 skipped
            Cart.Tests/CartTests.cs: 1 skipped
            pyproject.toml: 1 skipped
        "#]],
    );
}

// shows: REL-32
#[test]
fn fewer_tests_and_assertions_are_signs() {
    let diff = [
        of("tests/test_a.py", "-def test_rounding():\n-    assert round(x) == 2\n-    assert y"),
        of("src/parser.rs", "-    #[test]\n-    fn nested() {\n-        assert_eq!(depth(), 3);\n-    }"),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_a.py: 1 tests fewer
            tests/test_a.py: 2 assertions fewer
            src/parser.rs: 1 tests fewer
        "#]],
    );
}

// shows: REL-32
#[test]
fn an_assertion_that_always_holds_or_is_a_comment_is_none() {
    let diff = [
        of("tests/test_a.py", "-    assert total() == 3\n+    assert True"),
        of("tests/test_b.py", "-    assert total() == 3\n+    # assert total() == 3"),
        of("web/a.test.js", "-  expect(total()).toBe(3)\n+  expect(true).toBe(true)"),
        of("tests/a.rs", "-    assert_eq!(total(), 3);\n+    assert!(true);"),
        of("tests/test_c.py", "-    assert total() == 3\n+    self.assertTrue(total() == 3)"),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_a.py: 1 assertions fewer
            tests/test_b.py: 1 assertions fewer
            web/a.test.js: 1 assertions fewer
            tests/a.rs: 1 assertions fewer
        "#]],
    );
}

// shows: REL-32
#[test]
fn tests_that_moved_or_were_rewritten_are_no_sign() {
    let moved = [
        of("tests/test_all.py", "-def test_a():\n-    assert a() == 1\n-def test_b():\n-    assert b() == 2"),
        of("tests/test_a.py", "+def test_a():\n+    assert a() == 1"),
        of("tests/test_b.py", "+    def test_b():\n+        assert b() == 2"),
        of("tests/test_c.py", "-    self.assertEqual(c(), 3)\n+    assert c() == 3"),
        of("src/main.py", "-    assert ready\n+    sys.exit(1)"),
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
    for path in
        ["src/contest.rs", "latest.py", "tests/README.md", "src/attest/key.rs", "src/a.rs", "testing.md"]
    {
        assert!(!is_test_file(path), "{path}");
    }
}

// shows: REL-32
#[test]
fn marks_that_are_seldom_are_found_too() {
    let diff = [
        of("tests/test_a.py", "+        raise unittest.SkipTest"),
        of("tests/test_b.py", "+    if False:"),
        of("tests/test_c.py", "+    except AssertionError:\n+        pass"),
        of("src/a.rs", "+#[cfg(any())]"),
        of("tests/c.rs", "+#[cfg_attr(unix, ignore)]"),
        of("web/a.spec.ts", "-test('pays', async () => {\n+test.fixme('pays', async () => {"),
        of("web/b.test.ts", "+  xcontext('cart', () => {"),
        of("cart_test.go", "+//go:build ignore"),
        of("src/test/java/CartTest.java", "+    Assumptions.assumeTrue(false);"),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_a.py: 1 skipped
            tests/test_b.py: 1 skipped
            tests/test_c.py: 1 skipped
            src/a.rs: 1 skipped
            tests/c.rs: 1 skipped
            web/a.spec.ts: 1 skipped
            web/a.spec.ts: 1 tests fewer
            web/b.test.ts: 1 skipped
            cart_test.go: 1 skipped
            src/test/java/CartTest.java: 1 skipped
        "#]],
    );
}

// shows: REL-32
#[test]
fn more_assertions_that_always_hold_are_none() {
    let diff = [
        of("tests/test_a.py", "-    assert total() == 3\n+    assert total() == 3 or True"),
        of("tests/test_b.py", "-    assert total() == 3\n+    assert 1 == 1"),
        of("tests/a.rs", "-    assert_eq!(total(), 3);\n+    assert!(total() == 3 || true);"),
        of("CartTest.java", "-    assertEquals(3, total());\n+    assertEquals(1, 1);"),
        of("cart_test.go", "-\tassert.Equal(t, 3, total())\n+\tassert.True(t, true)"),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            tests/test_a.py: 1 assertions fewer
            tests/test_b.py: 1 assertions fewer
            tests/a.rs: 1 assertions fewer
            CartTest.java: 1 assertions fewer
            cart_test.go: 1 assertions fewer
        "#]],
    );
}

// shows: REL-32
#[test]
fn tests_that_are_run_no_more_are_signs() {
    let ci = ".github/workflows/ci.yml";
    let diff = [
        of(ci, "-      - run: cargo test --workspace\n+      - run: cargo build"),
        of(".gitlab-ci.yml", "-    - pytest -q\n+    - pytest -q || true"),
        of("web/package.json", "-    \"test\": \"vitest run\",\n+    \"test\": \"echo ok\","),
        of("Makefile", "-\tgo test ./...\n+\tgo test ./... || echo failed"),
        of("pom.xml", "+        <skipTests>true</skipTests>"),
        of("tox.ini", "+addopts = -k \"not billing\""),
        of("azure-pipelines.yml", "+    continue-on-error: true"),
    ];
    check(
        &diff.concat(),
        expect![[r#"
            .github/workflows/ci.yml: 1 runs fewer
            .gitlab-ci.yml: 1 skipped
            web/package.json: 1 runs fewer
            Makefile: 1 skipped
            pom.xml: 1 skipped
            tox.ini: 1 skipped
            azure-pipelines.yml: 1 skipped
        "#]],
    );
    let honest = [
        of(ci, "-      - run: npm test\n+      - run: npm run test:unit"),
        of("package.json", "-    \"jest\": \"^28.0.0\",\n+    \"jest\": \"^29.7.0\","),
        of("pyproject.toml", "-    \"pytest>=7\","),
        of("Makefile", "+\trm -rf build || true"),
    ];
    check(&honest.concat(), expect![""]);
}

// shows: REL-32
#[test]
fn a_test_file_that_is_set_aside_is_as_good_as_deleted() {
    let renamed = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n")
    };
    let aside = [
        deleted("tests/test_billing.py"),
        of("tests/test_billing.py.bak", "+def test_a():\n+    assert total() == 3"),
        renamed("tests/test_cart.py", "tests/cart.py"),
        renamed("cart_test.go", "cart_test.go.disabled"),
        renamed("tests/test_tax.py", "tests/unit/test_tax.py"),
    ];
    check(
        &aside.concat(),
        expect![[r#"
            tests/test_billing.py: deleted
            tests/test_cart.py: deleted
            cart_test.go: deleted
        "#]],
    );
}
