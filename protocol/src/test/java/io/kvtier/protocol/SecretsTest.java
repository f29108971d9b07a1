package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is hidden, and what is left for who looks for a fault. */
final class SecretsTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "https://key:hunter2-x@s3/bucket",
        "http://hunter2-x@proxy:3128",
        "GET /b/o?X-Amz-Signature=hunter2-x&x=1",
        "AWS_SECRET_ACCESS_KEY=hunter2-x",
        "aws_session_token = hunter2-x",
        "{\"password\":\"hunter2-x\",\"a\":1}",
        "Authorization: Bearer hunter2-x",
        "authorization=AWS4-HMAC-SHA256 Credential=hunter2-x/2026, Signature=hunter2-x",
        "kvtierd --set http.token=hunter2-x",
        "fetch --api-key hunter2-x",
        "-----BEGIN EC PRIVATE KEY-----\nhunter2-x\n-----END EC PRIVATE KEY-----",
        "http://joe:pa/ss@hunter2-x@proxy:3128",
        "password=a,hunter2-x;hunter2-y hunter2-z",
        "db_password: correct horse hunter2-x",
        "{\"password\":\"a \\\"hunter2-x, b\",\"c\":1}",
        "said {\\\"password\\\":\\\"a, hunter2-x\\\"}",
        "KVTIERD_OBJECT_ENCRYPTION_KEY_COMMAND=fetch hunter2-x",
        "kvtierd --set object.encryption.key_command=fetch --pin hunter2-x",
        "object.encryption.key_command: [fetch, hunter2-x]",
        "access.tokens: /etc/t password: hunter2-x",
        "Bad header kvt_0123456789ab_hunter2-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
      })
  void hideInText_secret_isHidden(String text) {
    String hidden = Secrets.hideInText(text);
    assertFalse(hidden.contains("hunter2"), hidden);
    assertTrue(hidden.contains(Secrets.HIDDEN), hidden);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "found 12 blocks in memory and 3 on SSD in 4 ms",
        "the object tier is s3://bucket/prefix at http://localhost:9000",
        "object.encryption.key_file is '/etc/kvtier/key'",
        "blocks of 16 keys; hits 12",
        "{\"block_tokens\":16,\"dtype\":\"bf16\"}",
        "access.tokens is '/etc/kvtier/tokens', expected a path",
        "the token file is read again: TokenFile: 3 in '/etc/kvtier/tokens'",
        "KVTIERD_ACCESS_TOKENS=/etc/kvtier/tokens",
        "no token, no password, no credential"
      })
  void hideInText_otherText_stays(String text) {
    assertEquals(text, Secrets.hideInText(text));
  }

  @Test
  void hideInText_json_staysJson() {
    assertEquals(
        "{\"password\":\"(hidden)\",\"a\":1,\"token\":(hidden),\"b\":[2]}",
        Secrets.hideInText("{\"password\":\"x y\",\"a\":1,\"token\":12345,\"b\":[2]}"));
  }

  @Test
  void hide_byName() {
    assertEquals(Secrets.HIDDEN, Secrets.hide("AWS_SECRET_ACCESS_KEY", "abc"));
    assertEquals(Secrets.HIDDEN, Secrets.hide("object.encryption.key_command", "[fetch, abc]"));
    assertEquals("/etc/k", Secrets.hide("object.encryption.key_file", "/etc/k"));
    assertEquals("http://(hidden)@p:1", Secrets.hide("object.s3.proxy", "http://a:b@p:1"));
    assertEquals("/etc/t", Secrets.hide("access.tokens", "/etc/t"));
    assertEquals("/etc/t", Secrets.hide("KVTIERD_ACCESS_TOKENS", "/etc/t"));
    assertEquals("none", Secrets.hide("KVTIERD_ACCESS_WITHOUT_TOKEN", "none"));
    assertEquals(
        Secrets.HIDDEN, Secrets.hide("KVTIERD_OBJECT_ENCRYPTION_KEY_COMMAND", "fetch abc"));
    assertEquals("/etc/k", Secrets.hide("KVTIERD_OBJECT_ENCRYPTION_KEY_FILE", "/etc/k"));
    assertEquals("http://(hidden)@p:1", Secrets.hide("object.s3.proxy", "http://a:b c/@d@p:1"));
    assertEquals("(hidden)@p:1", Secrets.hide("HTTPS_PROXY", "a:b@p:1"));
    assertEquals("AES256", Secrets.hide("object.s3.encryption", "AES256"));
  }
}
