package io.kvtier.daemon.doctor;

/**
 * One thing that was looked at.
 *
 * @param check what was looked at, in a word or two
 * @param what what was found
 * @param cure what to do; empty where nothing is to be done
 */
public record Finding(String check, Level level, String what, String cure) {
  /** How bad it is. */
  public enum Level {
    /** As it should be. */
    PASS,
    /** The daemon works, but slower, or not for long. */
    WARN,
    /** The daemon does not start, or a part of it does not work. */
    FAIL
  }

  static Finding pass(String check, String what) {
    return new Finding(check, Level.PASS, what, "");
  }

  static Finding warn(String check, String what, String cure) {
    return new Finding(check, Level.WARN, what, cure);
  }

  static Finding fail(String check, String what, String cure) {
    return new Finding(check, Level.FAIL, what, cure);
  }
}
