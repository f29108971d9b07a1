import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.engine.TestExecutionResult;

/** Runs one test, CLASS#METHOD, and prints how it ended: what surefire does, with a class path of the caller's. */
public final class RunTest {
  private RunTest() {}

  public static void main(String[] arguments) {
    LauncherDiscoveryRequest request =
        LauncherDiscoveryRequestBuilder.request()
            .selectors(DiscoverySelectors.selectMethod(arguments[0]))
            .build();
    int[] ended = new int[2];
    LauncherFactory.create()
        .execute(
            request,
            new TestExecutionListener() {
              @Override
              public void executionFinished(TestIdentifier test, TestExecutionResult result) {
                if (test.isTest()) {
                  boolean isRight = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
                  ended[isRight ? 0 : 1]++;
                  String why = result.getThrowable().map(String::valueOf).orElse("");
                  System.out.println("RESULT " + result.getStatus() + " " + why.replace('\n', ' '));
                }
              }
            });
    System.exit(ended[0] + ended[1] != 1 ? 3 : ended[1]);
  }
}
